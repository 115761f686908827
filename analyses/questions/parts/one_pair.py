"""Where does each symbol of one target come from: in truth, by attention, and by cause?"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import heat, panels
from analyses.charts.theme import figures, named
from analyses.questions.parts.alignment import Pair, look, pairs_of, transduction_of
from interp.heads.alignment import aligned
from models.errors import UserError
from models.languages import BORDER, Word
from models.runs.run import Run

TRUTH = "the truth"
DONORS = 5
"""Other pairs whose symbols stand in, one after the other, for those of the source."""


def pair_of(run: Run, text: str) -> Word:
    """A typed source, or a whole pair, with its right target.

    Raises:
        UserError: the language has no pairs, or what is typed is no source.
    """
    language = transduction_of(run)
    source, _, _ = text.partition(BORDER)
    try:
        return language.pair(language.vocabulary.parse(source))
    except LookupError as error:
        example = " ".join(language.split(language.example())[0])
        raise UserError(f"{error}: type one, such as {example}") from None


def one_pair(run: Run, word: Word, seed: int = 0) -> pd.DataFrame:
    """Which place of the source belongs to which symbol of the target, by each lens.

    Returns:
        One row per lens, target place and source place: of ("truth", "attention" or "effect"), part
        (a head, all heads, or what is exchanged), target and source (places from 1), its symbols,
        value (1 or 0; attention from 0 to 1; an effect in nats), shown (the value over the largest
        of its lens, from 0) and auroc (of the lens on this pair; missing for the truth).
    """
    language = transduction_of(run)
    pair = Pair.of(language, word)
    donors = [
        donor
        for donor in pairs_of(run, 40 * DONORS, seed + 1)
        if donor.truth.shape[1] >= pair.truth.shape[1] and donor.word != word
    ][:DONORS]
    scores = {("truth", TRUTH): pair.truth.astype(float)}
    if donors:
        scores |= look(run, run.model(), pair, donors)
    source, target = language.split(word)
    tables = []
    for (of, part), values in scores.items():
        auroc, _ = aligned(values, pair.truth)
        row, column = np.indices(values.shape)
        most = max(float(values.max()), 1e-12)
        tables.append(
            pd.DataFrame(
                {
                    "of": of,
                    "part": part,
                    "target": row.ravel() + 1,
                    "source": column.ravel() + 1,
                    "symbol": [target[at] for at in row.ravel()],
                    "from": [source[at] for at in column.ravel()],
                    "value": values.ravel(),
                    "shown": np.clip(values.ravel() / most, 0, 1),
                    "auroc": np.nan if of == "truth" else float(auroc),
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def chart(table: pd.DataFrame, parts: list[str]) -> ChartType:
    """A matrix for each lens: the target down, the source across."""
    rows = table.assign(
        place=table["target"].astype(str) + " " + table["symbol"],
        reads=table["source"].astype(str) + " " + table["from"],
    )
    drawn: dict[str, ChartType] = {}
    for part in parts:
        cells = rows[rows["part"] == part]
        auroc = cells["auroc"].iloc[0]
        drawn[part if pd.isna(auroc) else f"{part}: {auroc:.2f}"] = heat(
            cells,
            named(alt.X, "reads"),
            named(alt.Y, "place"),
            ["place", "reads", *figures("value")],
            alt.Color("shown:Q", legend=None).scale(domain=[0, 1], scheme="blues"),
        ).properties(width=alt.Step(18), height=alt.Step(16))
    return panels(drawn)
