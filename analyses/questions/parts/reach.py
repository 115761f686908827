"""The reach of a model back in a word: influence by distance, and the steps on the way."""

from __future__ import annotations

from math import hypot

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from jaxtyping import Int
from torch import Tensor

from analyses.answers import Planned, Progress, models_of, of_table, quiet
from analyses.answers import numbers as as_numbers
from analyses.charts.marks import curve
from analyses.charts.theme import by_model, figures
from analyses.claims import Claim
from analyses.lectures.costs import example_tokens
from analyses.needs import require
from analyses.options.parts import Reach as Options
from analyses.words import ANALYSIS_SEED, apart
from interp.causal.influence import decay, influence, steps
from interp.causal.metrics import logit_at
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import END_ID
from models.runs.run import Run

RATES = ("rate", "rate_low", "rate_high", "fit", "path_length", "sequential")
COUNTS = ("farthest", "path_length", "sequential")
STEPS_AT = (4, 8, 16, 32)
"""Positions at which steps are counted for the table of ``steps_by_length``."""
STRAIGHT = 0.5
"""A line that explains less of the log of the influence is no good summary of it."""
LONGEST = 64
"""The longest words that are asked about unless a length is given: the graph of a word takes a
gradient for each position of each layer."""


def _words_of(run: Run, count: int, length: int, seed: int) -> Int[Tensor, "word pos"]:
    """Different words of one length, BOS first; in the language or not.

    Args:
        length: their length in symbols; 0 takes the longest of the training window, at most
            ``LONGEST``.

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


def _reach(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Influence by distance: |d logit / d embedding|, of END's logit at the last symbol, by the
    embedding of the symbol so many places back (0 is the last symbol itself), in float64.

    Returns:
        One row per model and distance: architecture, model ("trained", "untrained"),
        distance, influence (mean over words), low and high (its 95% bootstrap interval), words;
        and, equal for all distances, rate (by how much the log of the influence falls with a
        symbol further back, see ``interp.causal.influence.decay``), rate_low, rate_high, fit (the
        share of variance that this line explains), path_length and sequential (see
        ``interp.causal.influence.Steps``). Both are counted from the place of the first symbol to
        that of the last one. They are counted in the untrained model: training can make an
        influence so small that it rounds to 0. An empty path_length means that no way leads there.
        farthest is the largest distance with any influence at all.

    Raises:
        UserError: see ``_words_of``.
    """
    tokens = _words_of(run, options.count, options.length, options.seed)
    way = steps(run.untrained().double(), tokens[0, 1:])
    rows: list[dict[str, object]] = []
    for name, network in models_of(run, progress):
        norms = influence(network.double(), tokens, logit_at(END_ID))
        norms = norms[:, :0:-1]  # without BOS, the last symbol first
        rates = dict(zip(RATES, (*decay(norms), way.path_length, way.sequential), strict=True))
        rates["farthest"] = int(np.flatnonzero(norms.any(axis=0))[-1])
        about = {"architecture": run.config.model.architecture, "model": name}
        for distance, values in enumerate(np.stack(bootstrap_mean(norms)).T.tolist()):
            row: dict[str, object] = about | {"distance": distance}
            row |= dict(zip(("influence", "low", "high"), values, strict=True))
            rows.append(row | {"words": len(norms)} | rates)
    return pd.DataFrame(rows).astype({"path_length": "Int64"})


def steps_by_length(run: Run) -> pd.DataFrame:
    """Path length and sequential steps of a run's architecture at some numbers of positions.

    Columns: positions, path length (missing where no way leads from the first position to the
    last), sequential steps.

    Raises:
        UserError: the run is no network, or one of two sides.
    """
    require(run, "one side", "states")
    config = run.config.model
    model = run.untrained().double()
    some = [n for n in STEPS_AT if config.positions != "learned" or n <= config.n_ctx]
    ways = [(n, steps(model, example_tokens(model, n)[0])) for n in some]
    rows = [(n, way.path_length, way.sequential) for n, way in ways]
    table = pd.DataFrame(rows, columns=["positions", "path length", "sequential steps"])
    return table.astype({"path length": "Int64"})


def _side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model: the influence one place back and at the first symbol, and what is
    equal for all distances."""
    rows = [
        {"model": model}
        | {"one_back": part["influence"].iloc[1], "first": part["influence"].iloc[-1]}
        | part.iloc[0][["farthest", *RATES, "words"]].to_dict()
        for model, part in table.groupby("model", sort=False)
    ]
    return pd.DataFrame(rows).astype({"path_length": "Int64"})


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The change by training of the slope of the log of the influence; the interval is of the
    difference of two independent rates, which is too wide for two of the same words."""
    rows = table.drop_duplicates("model").set_index("model")
    last, before = rows.loc["trained"], rows.loc["untrained"]
    if pd.isna(before["rate"] - last["rate"]):
        finding = "The slope of the influence is not known"
        reason = "Fewer than three places have any influence."
        return [Claim(finding, None, None, None, last["words"], "words", unweighed=reason)]
    change, path = before["rate"] - last["rate"], last["path_length"]
    down = hypot(last["rate_high"] - last["rate"], before["rate"] - before["rate_low"])
    up = hypot(last["rate"] - last["rate_low"], before["rate_high"] - before["rate"])
    way = "no way leads" if pd.isna(path) else f"it is {path:.0f} step{'' if path == 1 else 's'}"
    return [
        Claim(
            "With each symbol further back the log of the influence changes by "
            f"{-last['rate']:+.3f}, and training moved this by {{}}",
            *(change, change - down, change + up, last["words"], "words", "bootstrap over words"),
            controls={"no change": 0.0},
            form="+.3f",
            less=bool(change < 0),
            doubts=[f"A line explains {last['fit']:.0%} of it."] if last["fit"] < STRAIGHT else [],
            notes=[
                "Influence is |d logit of END / d embedding|. From the first symbol to the last "
                f"{way}, and {last['sequential']:.0f} steps must be done one after the other."
            ],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """Influence by distance on a log axis, of the trained and the untrained model."""
    y = alt.Y("influence:Q", title="|d logit / d embedding|").scale(type="log")
    seen = table["low"].where(table["low"] > 0)
    return curve(
        table.assign(low=seen)[table["influence"] > 0],
        alt.X("distance:Q", title="symbols back").axis(tickMinStep=1),
        y.axis(format=".0e"),
        ["model", "distance", alt.Tooltip("influence:Q", format=".2e"), *figures("rate")],
        by_model(),
    ).properties(width=320, height=200)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: what is equal for all distances."""
    first = table.drop_duplicates("model").astype({"path_length": float})  # empty: not defined
    rows = first.melt("model", ["rate", "fit", *COUNTS]).itertuples()
    return as_numbers((row.variable.replace("_", " "), row.model, row.value) for row in rows)


QUESTION = of_table(
    "reach",
    Options,
    _reach,
    _claims,
    _headline,
    _chart,
    _side_by_side,
    needs=("gradients", "one side", "causal", "verdict"),
    planned=(Planned("trained", "untrained", alone="rate"),),
)
