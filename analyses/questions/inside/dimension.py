"""Dimensions that activations fill: the participation ratio by layer."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Progress, models_of, of_table, quiet, row_numbers
from analyses.charts.marks import curve
from analyses.charts.theme import by_model, figures, named
from analyses.claims import Claim, measured
from analyses.options.inside import Dimension as Options
from analyses.words import WordTensors, sample_window
from interp.model import activations, sites_of
from interp.vectors.dimension import participation_ratios
from models.languages import RegularLanguage
from models.runs.run import Run


def _dimension(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The effective dimension of the activations at each site, over all symbols of words of the
    training window, members and others.

    Returns:
        One row per model and site: model ("trained", "untrained"), site, value (the
        participation ratio (tr C)^2 / tr C^2 of the covariance: 1 if the activations lie on a line,
        d_model if all directions vary alike), low and high (95% bootstrap over words), d_model,
        states (of the language's minimal automaton, where it has one), words.
    """
    words = WordTensors.of(sample_window(run, options.words, options.seed).words)
    inside = words.mask.clone()
    inside[:, 0] = False  # BOS is the same in all words
    unit = np.nonzero(inside.numpy())[0]
    states = len(run.language.delta) if isinstance(run.language, RegularLanguage) else None
    rows: list[dict[str, object]] = []
    for name, model in models_of(run, progress):
        sites = sites_of(model, embedding="hook_embed")
        read = activations(model, words.tokens, list(sites.values()))
        for site, hook in sites.items():
            x = read[hook][inside].double().numpy()
            row: dict[str, object] = {"model": name, "site": site}
            row |= zip(("value", "low", "high"), participation_ratios(x, unit), strict=True)
            row |= {"d_model": run.config.model.d_model, "states": states}
            rows.append(row | {"words": len(words.tokens)})
    return pd.DataFrame(rows).astype({"states": "Int64"})


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The dimensions that the last site fills: whether fewer or more than without training, both
    ends of the interval tell."""
    last = table.drop_duplicates("model", keep="last").set_index("model")
    trained, untrained = last.loc["trained"], last.loc["untrained", "value"]
    states, fewer = trained["states"], bool(trained["value"] < untrained)
    return [
        Claim(
            f"After the last layer the activations fill {'fewer' if fewer else 'more'} dimensions "
            f"than those of the untrained network, {{}} of {trained['d_model']}",
            *measured(trained, "value", "low", "high", "words"),
            "words",
            "participation ratio, bootstrap over words",
            {"the untrained network": untrained},
            ".1f",
            less=fewer,
            notes=[] if pd.isna(states) else [f"The minimal automaton has {states:d} states."],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """The participation ratio by site, of the trained and the untrained model."""
    return curve(
        table,
        named(alt.X, "site", table["site"].unique().tolist(), labelAngle=-30),
        alt.Y("value:Q", title="effective dimension").scale(domainMin=0),
        ["model", "site", *figures("value", "low", "high"), "d_model", "states"],
        by_model(),
    ).properties(width=320, height=200)


QUESTION = of_table(
    "dimension",
    Options,
    _dimension,
    _claims,
    lambda table: row_numbers(table, "{site}"),
    _chart,
    needs=("one side", "states"),
)
