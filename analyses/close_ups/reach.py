"""How far back does a model reach? Influence by distance, and the steps on the way."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Int
from torch import Tensor

from analyses.answers import Progress, quiet
from analyses.charts.theme import TRAINED, UNTRAINED, figures
from analyses.close_ups.costs import example_tokens
from analyses.words import ANALYSIS_SEED, apart
from interp.causal.influence import decay, influence, steps
from interp.causal.metrics import logit_at
from interp.statistics import bootstrap_mean, brackets
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import Run

RATES = ("rate", "rate_low", "rate_high", "fit", "path_length", "sequential")
STEPS_AT = (4, 8, 16, 32)
"""Positions at which steps are counted for the table of ``steps_by_length``."""
LONGEST = 64
"""The longest words that are asked about unless a length is given: the graph of a word takes a
gradient for each position of each layer."""


def words_of(run: Run, count: int, length: int, seed: int) -> Int[Tensor, "word pos"]:
    """Different words of one length, BOS first; in the language or not.

    Args:
        length: in symbols; 0 takes the longest of the training window, at most ``LONGEST``.

    Raises:
        UserError: the language has too few such words.
    """
    language = run.language
    window = language.positive_lengths(language.lengths(run.config.max_n))
    length = length or max((n for n in window if n <= LONGEST), default=0)
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    try:
        words = language.sample(rng, 4 * count, [length], split=apart(language)).words
    except LookupError:
        raise UserError(
            f"{language.name} has no words of {length} symbols: choose another --length"
        ) from None
    tokens = words.tokens[np.sort(np.unique(words.ids, axis=0, return_index=True)[1])][:count]
    if len(tokens) < 2 or length < 4:
        raise UserError(
            f"{language.name} has {len(tokens)} different words of {length} symbols to ask about: "
            "a rate needs two of at least four symbols; choose another --length"
        )
    return torch.as_tensor(tokens)


def reach(
    runs: Sequence[Run],
    count: int = 60,
    length: int = 0,
    seed: int = 0,
    progress: Progress = quiet,
) -> pd.DataFrame:
    """Influence by distance: |d logit / d embedding|, of END's logit at the last symbol, by the
    embedding of the symbol so many places back (0 is the last symbol itself), in float64.

    Args:
        count: different words, all of one length, in the language or not.
        length: of the words in symbols; 0 takes the longest of the training window, up to
            ``LONGEST``.

    Returns:
        One row per run, model and distance: run, architecture, model ("trained", "untrained"),
        distance, influence (mean over words), low and high (its 95% bootstrap interval), words;
        and, equal for all distances, rate (by how much the log of the influence falls with a
        symbol further back, see ``interp.causal.influence.decay``), rate_low, rate_high, fit (the
        share of variance that this line explains), path_length and sequential (see
        ``interp.causal.influence.Steps``). Both are counted from the place of the first symbol to
        that of the last one. They are counted in the untrained model: training can make an
        influence so small that it rounds to 0. An empty path_length means that no way leads there.
        farthest is the largest distance with any influence at all.

    Raises:
        UserError: as ``words_of``; or a run has no gradient by distance.
    """
    for run in runs:
        check(run)
    rows: list[dict[str, object]] = []
    for number, run in enumerate(runs):
        tokens = words_of(run, count, length, seed)
        way = steps(run.untrained().double(), tokens[0, 1:])
        for done, name in enumerate(("trained", "untrained")):
            progress(2 * number + done, 2 * len(runs), f"{run.name}, {name}")
            model = (run.model() if name == "trained" else run.untrained()).double()
            each = influence(model, tokens, logit_at(END_ID))[:, :0:-1]  # without BOS, last first
            rate, low, high, fit = decay(each)
            about = {"run": run.name, "architecture": run.config.model.architecture, "model": name}
            numbers = (rate, low, high, fit, way.path_length, way.sequential)
            rates = dict(zip(RATES, numbers, strict=True))
            rates["farthest"] = int(np.flatnonzero(each.any(axis=0))[-1])
            for distance, values in enumerate(np.stack(bootstrap_mean(each)).T.tolist()):
                found = dict(zip(("influence", "low", "high"), values, strict=True))
                row = about | {"distance": distance} | found | {"words": len(each)}
                rows.append(row | rates)
    progress(2 * len(runs), 2 * len(runs), "reach")
    return pd.DataFrame(rows).astype({"path_length": "Int64"})


def check(run: Run) -> None:
    """Raises UserError, in one line, for a run that has no influence by distance."""
    family = run.config.model.family
    if family.tabular:
        raise UserError(
            f"{run.name} is a table of counts, and has no gradient: ask a network. By its making "
            f"it reaches {run.config.model.order - 1} symbols back"
        )
    if family.two_sided:
        raise UserError(f"{run.name} reads a source by another side: ask a model of one side")
    if run.config.model.sees_ahead:
        raise UserError(
            f"{run.name} reads the verdict at BOS, or sees both sides of a place: ask a causal one"
        )


def steps_by_length(run: Run) -> pd.DataFrame:
    """Path length and sequential steps of a run's architecture at some numbers of positions.

    Columns: positions, path length (missing where no way leads from the first position to the
    last), sequential steps.

    Raises:
        UserError: the run is no network, or one of two sides.
    """
    config = run.config.model
    if config.family.tabular or config.family.two_sided or config.family.whole:
        raise UserError(f"{run.name} is no network of one side: its steps are not counted")
    model = run.untrained().double()
    some = [n for n in STEPS_AT if config.positions != "learned" or n <= config.n_ctx]
    found = [(n, steps(model, example_tokens(model, n)[0])) for n in some]
    rows = [(n, way.path_length, way.sequential) for n, way in found]
    table = pd.DataFrame(rows, columns=["positions", "path length", "sequential steps"])
    return table.astype({"path length": "Int64"})


def side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row per run and model: the influence one place back and at the first symbol, and what is
    equal for all distances."""
    rows = [
        own.iloc[0][["run", "model"]].to_dict()
        | {"one_back": own["influence"].iloc[1], "first": own["influence"].iloc[-1]}
        | own.iloc[0][["farthest", *RATES, "words"]].to_dict()
        for _, own in table.groupby(["run", "model"], sort=False)
    ]
    return pd.DataFrame(rows).astype({"path_length": "Int64"})


def in_words(table: pd.DataFrame) -> str:
    """What the table says of each run."""
    rows = table.drop_duplicates(["run", "model"]).set_index(["run", "model"])
    said = []
    for run in table["run"].unique():
        trained, untrained = rows.loc[(run, "trained")], rows.loc[(run, "untrained")]
        way = trained["path_length"]
        steps_said = (
            "no way leads from the first symbol to the last"
            if pd.isna(way)
            else f"from the first symbol to the last it is {way:d} step{'' if way == 1 else 's'}"
        )
        said.append(
            f"{run}: with each symbol further back the log of the influence falls by "
            f"{_rate(trained)} (untrained {_rate(untrained)}); {steps_said}, and "
            f"{trained['sequential']:d} steps must be done one after the other"
        )
    return (
        f"{'. '.join(said)}. Influence is |d logit of END / d embedding|, mean over "
        f"{table['words'].min()} words; intervals: bootstrap over words."
    )


def _rate(row: pd.Series) -> str:
    if np.isnan(row["rate"]):
        return "an unknown rate: fewer than three places have any influence"
    return f"{row['rate']:.3f}{brackets(row['rate_low'], row['rate_high'], '.3f')}"


def chart(table: pd.DataFrame) -> ChartType:
    """Influence by distance on a log axis, of the trained and the untrained model."""
    base = alt.Chart(table[table["influence"] > 0]).encode(
        x=alt.X("distance:Q", title="symbols back").axis(tickMinStep=1),
        color=alt.Color("model:N", title=None)
        .scale(domain=["trained", "untrained"], range=[TRAINED, UNTRAINED])
        .legend(orient="top"),
        tooltip=["model", "distance", alt.Tooltip("influence:Q", format=".2e"), *figures("rate")],
    )
    y = alt.Y("influence:Q", title="|d logit / d embedding|").scale(type="log")
    line = base.mark_line(point=True).encode(y=y.axis(format=".0e"))
    rules = base.transform_filter("datum.low > 0").mark_rule().encode(y="low:Q", y2="high:Q")
    return alt.layer(rules, line).properties(width=320, height=200)
