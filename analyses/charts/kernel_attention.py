"""Kernel attention in pictures: the kernels, their regression curves, and their weights."""

from __future__ import annotations

from typing import get_args

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.charts.marks import heat
from analyses.charts.theme import QUIET, TRAINED, colours, figures
from analyses.options.pictures import Kernels
from models.errors import UserError
from models.transformer.nadaraya_watson import Kernel, kernel_attention

KERNELS: tuple[Kernel, ...] = get_args(Kernel)
LAST = 5.0  # keys and queries lie between 0 and this


def _shapes(width: float = 1.0) -> pd.DataFrame:
    """The weight that each kernel gives a key at a distance, before weights are scaled to sum to 1.

    Columns: kernel, distance, value.
    """
    distance = np.linspace(-3, 3, 241)
    d = np.abs(distance) / width
    values = {
        "gaussian": np.exp(-(d**2) / 2),
        "boxcar": (d <= 1).astype(float),
        "epanechnikov": np.maximum(0, 1 - d),
    }
    return pd.concat(
        [pd.DataFrame({"kernel": k, "distance": distance, "value": values[k]}) for k in KERNELS],
        ignore_index=True,
    )


def _truth(x: np.ndarray) -> np.ndarray:
    """The function that the observations are noisy values of."""
    return 2 * np.sin(x) + x


def observations(keys: int = 40, seed: int = 0) -> pd.DataFrame:
    """Noisy values at random places, ascending: columns x, y."""
    if keys < 1:
        raise UserError(f"keys is {keys}: it must be at least 1")
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, LAST, keys))
    return pd.DataFrame({"x": x, "y": _truth(x) + rng.normal(scale=0.5, size=keys)})


def _regression(points: pd.DataFrame, width: float = 1.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The curve of each kernel through the observations, and its weights.

    Returns:
        Columns kernel, x, y; columns kernel, query, key (its rank), key_place, weight.
    """
    queries = np.linspace(0, LAST, 101)
    keys, values = torch.tensor(points["x"].to_list()), torch.tensor(points["y"].to_list())
    curves, weights = [], []
    for kernel in KERNELS:
        mean, weight = kernel_attention(
            torch.as_tensor(queries).float(), keys, values, kernel, width
        )
        curves.append(pd.DataFrame({"kernel": kernel, "x": queries, "y": mean.numpy()}))
        some = weight[::5].numpy()  # every fifth query is enough for a heatmap
        pairs = {"query": np.repeat(np.arange(len(some)), len(keys))}
        pairs |= {"key": np.tile(np.arange(len(keys)), len(some)), "weight": some.ravel()}
        table = pd.DataFrame({"kernel": kernel, **pairs})
        weights.append(
            table.assign(query=queries[::5][table["query"]], key_place=keys.numpy()[table["key"]])
        )
    return pd.concat(curves, ignore_index=True), pd.concat(weights, ignore_index=True)


def _shapes_chart(width: float = 1.0) -> ChartType:
    """The three kernels over the distance."""
    return (
        alt.Chart(_shapes(width))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("distance:Q", title="key - query"),
            y=alt.Y("value:Q", title="kernel"),
            color=_colour(),
        )
        .properties(width=250, height=170)
    )


def _regression_chart(seen: pd.DataFrame, width: float = 1.0) -> ChartType:
    """The observations, the truth (dashed), and the curve of each kernel."""
    x = np.linspace(0, LAST, 101)
    dashed = alt.Chart(pd.DataFrame({"x": x, "y": _truth(x)})).mark_line(
        strokeDash=[4, 4], color=QUIET
    )
    dots = alt.Chart(seen).mark_point(filled=True, size=22, color=QUIET, opacity=0.7)
    curves = alt.Chart(_regression(seen, width)[0]).mark_line(strokeWidth=2)
    layers = [layer.encode(x="x:Q", y="y:Q") for layer in (dots, dashed)]
    return alt.layer(*layers, curves.encode(x="x:Q", y="y:Q", color=_colour())).properties(
        width=250, height=170
    )


def _weights_chart(seen: pd.DataFrame, width: float = 1.0) -> ChartType:
    """The attention weights of each kernel: query down, key across."""
    table = _regression(seen, width)[1]
    table["query"] = table["query"].round(2)
    cells = heat(
        table,
        alt.X("key:O", title="key, by place").axis(labels=False, ticks=False),
        alt.Y("query:O", title="query").axis(labelOverlap=True),
        ["kernel", "query", *figures("key_place", "weight")],
        alt.Color("weight:Q").scale(range=["#eef3f6", TRAINED]),
        edge=False,
    ).properties(width=180, height=160)
    return cells.facet(alt.Facet("kernel:N", title=None, sort=list(KERNELS)), columns=3)


def chart(options: Kernels) -> ChartType:
    """Everything in one picture."""
    points = observations(options.keys, options.seed)
    top = _shapes_chart(options.width) | _regression_chart(points, options.width)
    return (top & _weights_chart(points, options.width)).resolve_scale(color="independent")


def _colour() -> alt.Color:
    return colours("kernel", KERNELS)
