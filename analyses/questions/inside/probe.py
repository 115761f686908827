"""One probe at work: what it says of every position, and the activations in two dimensions."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.preprocessing import OneHotEncoder

from analyses.charts.marks import dots, heat
from analyses.charts.theme import QUIET, TRAINED, colours, figures
from analyses.options.inside import Probing
from analyses.questions.inside.probing import examples
from interp.probing.linear import Kind, fit_linear, many_small_fits, standardise
from interp.probing.probes import MOST
from models.base import LanguageModel
from models.runs.run import Run

SHOWN = 1500
"""Held-out positions that are drawn, at the most."""

PROJECTIONS = {
    "principal components": "The two directions in which the activations vary most, whatever this "
    "variation means.",
    "partial least squares": "The two directions that vary most together with the variable, found "
    "on the words that fit the probe: this view looks for the variable.",
}


def read_by(
    run: Run, model: LanguageModel, options: Probing, target: str, site: str
) -> pd.DataFrame:
    """The linear probe of a target at a site, on held-out words.

    Returns:
        One row per position, ``SHOWN`` at the most: kind, value (the truth), read (the probe's),
        length (of the word), position, and per projection two columns, "<name> 1" and "<name> 2".
    """
    seen = examples(run, model, options, only=site)
    aim, rng = seen.targets[target], np.random.default_rng(options.seed)
    sides = []
    for side, most in ((seen.fit, MOST[aim.kind]), (seen.score, SHOWN)):
        word, position = np.nonzero(aim.mask & side[:, None])
        keep = np.sort(rng.permutation(len(word))[:most])
        sides.append((word[keep], position[keep]))
    fit, test = sides
    y, x = aim.values[fit], seen.sites[site]
    z, new = standardise(x[fit], x[test])
    with many_small_fits():
        read = fit_linear(z, y, aim.kind).predict(new) if len(np.unique(y)) > 1 else y[:1]
        flat = _projected(z, y, new, aim.kind)
    return pd.DataFrame(
        {
            "kind": aim.kind,
            "value": aim.values[test],
            "read": np.broadcast_to(read, len(new)),
            "length": seen.lengths[test[0]],
            "position": test[1],
            **flat,
        }
    )


def _projected(z: np.ndarray, y: np.ndarray, new: np.ndarray, kind: Kind) -> dict[str, np.ndarray]:
    plain = PCA(2).fit(z).transform(new)
    labels = y[:, None].astype(np.float64)
    if kind == "category":
        labels = OneHotEncoder(sparse_output=False).fit_transform(labels)
    aimed = PLSRegression(2).fit(z, labels).transform(new)
    names = zip(PROJECTIONS, (plain, aimed), strict=True)
    return {f"{name} {i + 1}": points[:, i] for name, points in names for i in (0, 1)}


def truth_chart(rows: pd.DataFrame) -> ChartType:
    """The probe's reading by the true value: points about the diagonal, or a confusion table."""
    if rows["kind"].iloc[0] == "category":
        counts = rows.groupby(["value", "read"]).size().rename("count").reset_index()
        counts["share"] = counts["count"] / counts.groupby("value")["count"].transform("sum")
        return heat(
            counts,
            alt.X("value:O", title="truth").axis(labelAngle=0),
            alt.Y("read:O", title="read"),
            ["value", "read", "count", alt.Tooltip("share:Q", format=".1%")],
            alt.Color("share:Q", title="share").scale(domain=[0, 1], scheme="blues"),
        ).properties(width=240, height=240)
    ends = [float(rows["value"].min()), float(rows["value"].max())]
    line = alt.Chart(pd.DataFrame({"value": ends})).mark_line(color=QUIET, strokeDash=[2, 2])
    points = dots(
        rows,
        alt.X("value:Q", title="truth"),
        alt.Y("read:Q", title="read"),
        ["value", *figures("read", digits=2), "length", "position"],
        alt.value(TRAINED),
        ends=None,
        size=18,
    )
    return (points + line.encode(x="value:Q", y="value:Q")).properties(width=240, height=240)


def errors_chart(rows: pd.DataFrame) -> ChartType:
    """Mean error of a count, or share of wrong categories, by the length of the word."""
    category = rows["kind"].iloc[0] == "category"
    if category:
        rows = rows.assign(error=(rows["read"] != rows["value"]).astype(float))
    else:
        rows = rows.assign(error=rows["read"] - rows["value"])
    title = "share of wrong categories" if category else "read - truth"
    x = alt.X("length:Q", title="length of the word").bin(maxbins=12)
    base = alt.Chart(rows).encode(x=x)
    band = base.mark_errorbar(extent="ci", color=TRAINED).encode(y=alt.Y("error:Q", title=title))
    points = base.mark_circle(color=TRAINED).encode(y=alt.Y("mean(error):Q", title=title))
    return (band + points).properties(width=240, height=240)


def projection_chart(rows: pd.DataFrame, how: str, target: str) -> ChartType:
    """The activations in two dimensions, coloured by the truth."""
    color = alt.Color("value:Q", title=target).scale(scheme="viridis")
    if rows["kind"].iloc[0] == "category":
        color = colours("value", sorted(set(rows["value"])), title=target, orient="right")
    bare = alt.Axis(labels=False, ticks=False)
    x, y = f"{how} 1:Q", f"{how} 2:Q"
    return dots(
        rows,
        alt.X(x, title="first", axis=bare),
        alt.Y(y, title="second", axis=bare),
        ["value", "length", "position"],
        color,
        ends=None,
        size=26,
    ).properties(width=420, height=320)
