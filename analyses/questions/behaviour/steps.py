"""A written step is turned around: does what follows believe it, or the source?

A chain of thought may be what an answer is made of, or decoration beside it. Here every step has a
truth. One step is edited, and the model goes on. It follows the edit if all later steps and the
answer are those that come of the written step, and the source if they are those of the source.
"""

from __future__ import annotations

from collections import Counter

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Progress, models_of, of_table, quiet, row_numbers
from analyses.charts.marks import bars
from analyses.charts.theme import SEVERAL, UNTRAINED, colours, figures, named, share
from analyses.claims import Claim, measured
from analyses.options.behaviour import Steps as Options
from analyses.questions.behaviour.targets import greedy
from analyses.words import ANALYSIS_SEED
from interp.statistics import wilson
from models.errors import UserError
from models.languages.pairs.steps import ParitySteps
from models.runs.run import Run

WAYS = ("next step follows the edit", "answer follows the edit", "answer follows the source")


def _edited(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The symbols after a step that was turned around, beside those after the true one.

    Sources of the training window, of at least three symbols; one step of each but the last is
    turned around.

    Returns:
        One row per model ("trained", "untrained"), whether a step is "edited" or "as it is",
        and way: "next step follows the edit", "answer follows the edit", "answer follows the
        source" (an answer may follow neither, if it is none); share, low, high (95% Wilson),
        commonest (the share that is right if always the same is written) and pairs. Where nothing
        is edited, what would follow the edit is wrong, so these are the errors that are made
        anyway.

    Raises:
        UserError: the run knows short sources alone.
    """
    language = run.language
    assert isinstance(language, ParitySteps)
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed])
    lengths = [language.length_of(n) for n in range(3, run.config.max_n + 1)]
    if not lengths:
        raise UserError(f"{run.name} knows sources of one or two symbols: nothing to edit")
    drawn = language.sample(rng, options.count, lengths, True, "test").words
    rows: list[dict[str, object]] = []
    for name, model in models_of(run, progress):
        chance = np.random.default_rng([ANALYSIS_SEED, options.seed, 1])  # the same for both models
        held: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for word in language.vocabulary.decoded(drawn):
            source, target = language.split(word)
            place = int(chance.integers(len(source) - 1))
            written, after = language.edited(source, place)
            for how, begins in (("edited", written), ("as it is", target[: place + 1])):
                pair = (*language.pair(source)[: len(source) + 1], *begins)
                begun = language.vocabulary.words([pair]).tokens
                tokens = torch.as_tensor(begun, device=model.device)
                going = greedy(model, run.objective, tokens, len(after) + 1)
                made = language.vocabulary.decode(going[0])
                answer = made[len(after) - 1]
                ways = ((made[0], after[0]), (answer, after[-1]), (answer, target[-1]))
                for way, outcome in zip(WAYS, ways, strict=True):
                    held.setdefault((how, way), []).append(outcome)
        for (how, way), outcomes in held.items():
            pairs, holds = len(outcomes), sum(token == wanted for token, wanted in outcomes)
            low, high = wilson(holds, pairs)
            ((_, most),) = Counter(wanted for _, wanted in outcomes).most_common(1)
            row: dict[str, object] = {"model": name, "steps": how, "way": way}
            row |= {"share": holds / pairs, "low": low, "high": high}
            rows.append(row | {"commonest": most / pairs, "pairs": pairs})
    return pd.DataFrame(rows)


def _claims(table: pd.DataFrame) -> list[Claim]:
    """Whether the answer follows the edit or the source, whichever is more frequent; and whether
    the next step follows the edit."""
    rows = table.set_index(["model", "steps", "way"])
    shares = rows["share"]
    follows = max(WAYS[1:], key=lambda way: shares["trained", "edited", way])
    right = f"Where no step is edited, {shares['trained', 'as it is', WAYS[2]]:.0%} of the answers"
    claims = []
    for way, notes in ((follows, [f"{right} are right."]), (WAYS[0], [])):
        row = rows.loc[("trained", "edited", way)]
        controls = {
            "the untrained network": shares["untrained", "edited", way],
            "always the same": row["commonest"],
        }
        if way != WAYS[2]:  # which is right where no step is edited
            controls["with no step edited"] = shares["trained", "as it is", way]
        claims.append(
            Claim(
                f"After a step that was turned around, the {way} in {{}}",
                *measured(row, "share", "low", "high", "pairs"),
                "pairs",
                "Wilson",
                controls,
                ".0%",
                notes=notes,
            )
        )
    return claims


def _chart(table: pd.DataFrame) -> ChartType:
    """The share of each way after an edited step, and after a true one."""
    shown = table.assign(of=table["model"] + ", " + table["steps"])
    order = list(dict.fromkeys(shown["of"]))
    return bars(
        shown,
        share(alt.X, "share", "share of the pairs"),
        named(alt.Y, "way", list(WAYS)),
        ["of", "way", *figures("share", "low", "high"), "pairs"],
        colours("of", order, [SEVERAL[0], SEVERAL[2], UNTRAINED, "#6b7078"]),
        yOffset=alt.YOffset("of:N", sort=None),
    ).properties(width=420)


QUESTION = of_table(
    "steps",
    Options,
    _edited,
    _claims,
    lambda table: row_numbers(table, "{way}, {steps}", value="share"),
    _chart,
    needs=("steps", "next symbols", "causal"),
    of_inside=False,
)
