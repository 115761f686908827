"""The picture of kernel attention on the page of the lectures: Nadaraya-Watson on a noisy function.

    python docs/kernels.py docs/pages/kernels.png

Above, the weight that each kernel gives a key at a distance, and the curves that it draws through
noisy observations; below, its attention weights. Change the numbers and look again.
"""

from __future__ import annotations

import sys
from typing import Literal, get_args

import altair as alt
import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.charts.marks import heat
from analyses.charts.theme import QUIET, TRAINED, colours

Kernel = Literal["gaussian", "boxcar", "epanechnikov"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
WIDTH, KEYS, SEED = 1.0, 40, 0
LAST = 5.0
"""Keys and queries lie between 0 and this."""


def kernel_attention(
    queries: Float[Tensor, "query *d"],
    keys: Float[Tensor, "key *d"],
    values: Float[Tensor, "key *v"],
    kernel: Kernel,
    width: float = 1.0,
) -> tuple[Float[Tensor, "query *v"], Float[Tensor, "query key"]]:
    """The mean of the values, each weighted by the kernel of its key's distance d to the query.

        gaussian exp(-d^2 / 2),   boxcar 1[d <= 1],   epanechnikov max(0, 1 - d)

    Args:
        queries: numbers or vectors; the keys are the same.
        width: the unit in which distances are measured; above 0.

    Returns:
        The means, and the weights. A row of weights sums to 1. If no key is inside the kernel, the
        row is 0 and so is the mean. (A Gaussian has no border, so this never happens to it.)
    """
    difference = queries[:, None] - keys[None]
    distance = difference[..., None].flatten(2).norm(dim=-1) / width
    if kernel == "gaussian":
        weights = (-distance.square() / 2).softmax(dim=-1)  # far keys do not all underflow to 0
    else:
        inside = (distance <= 1).to(distance) if kernel == "boxcar" else (1 - distance).clamp(min=0)
        total = inside.sum(dim=-1, keepdim=True)
        weights = inside / total.masked_fill(total == 0, 1.0)
    return torch.tensordot(weights, values, dims=1), weights


def truth(x: np.ndarray) -> np.ndarray:
    """The function that the observations are noisy values of."""
    return 2 * np.sin(x) + x


def observed() -> pd.DataFrame:
    """Noisy values at random places, ascending: columns x, y."""
    rng = np.random.default_rng(SEED)
    x = np.sort(rng.uniform(0, LAST, KEYS))
    return pd.DataFrame({"x": x, "y": truth(x) + rng.normal(scale=0.5, size=KEYS)})


def forms() -> pd.DataFrame:
    """The weight of a key by its distance, before weights are scaled to sum to 1: columns kernel,
    x, y."""
    x = np.linspace(-3, 3, 241)
    d = np.abs(x) / WIDTH
    curves = (np.exp(-(d**2) / 2), (d <= 1).astype(float), np.maximum(0, 1 - d))
    names = ("gaussian", "boxcar", "epanechnikov")
    tables = [
        pd.DataFrame({"kernel": k, "x": x, "y": y}) for k, y in zip(names, curves, strict=True)
    ]
    return pd.concat(tables)


def attended() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The curve of each kernel through the observations (kernel, x, y), and its attention weights
    (kernel, query, key, weight)."""
    queries = np.linspace(0, LAST, 101)
    seen = torch.tensor(observed().to_numpy().T)
    curves, weights = [], []
    for kernel in KERNELS:
        mean, weight = kernel_attention(torch.tensor(queries), *seen, kernel, WIDTH)
        curves.append(pd.DataFrame({"kernel": kernel, "x": queries, "y": mean.numpy()}))
        some = pd.DataFrame(weight[::5].numpy(), queries[::5].round(2))  # enough for a heatmap
        rows = some.rename_axis("query").reset_index().melt("query", None, "key", "weight")
        weights.append(rows.assign(kernel=kernel))
    return pd.concat(curves), pd.concat(weights)


def picture() -> alt.VConcatChart:
    """All of it."""
    curves, weights = attended()
    x = np.linspace(0, LAST, 101)
    true = alt.Chart(pd.DataFrame({"x": x, "y": truth(x)}))
    layers = (
        alt.Chart(observed()).mark_point(filled=True, size=22, color=QUIET, opacity=0.7),
        true.mark_line(strokeDash=[4, 4], color=QUIET),
    )
    drawn = [
        lines(forms(), "key - query"),
        alt.layer(*(layer.encode(x="x:Q", y="y:Q") for layer in layers)),
    ]
    cells = heat(
        weights,
        alt.X("key:O", title="key, by place").axis(labels=False, ticks=False),
        alt.Y("query:O", title="query").axis(labelOverlap=True),
        ["kernel", "query", "weight"],
        alt.Color("weight:Q").scale(range=["#eef3f6", TRAINED]),
        edge=False,
    ).properties(width=180, height=160)
    below = cells.facet(alt.Facet("kernel:N", title=None, sort=list(KERNELS)), columns=3)
    top = drawn[0] | (drawn[1] + lines(curves, "x"))
    return (
        (top & below)
        .resolve_scale(color="independent")
        .configure(background="white", padding=12)
        .configure_view(stroke=None)
    )


def lines(table: pd.DataFrame, title: str) -> alt.Chart:
    """A curve per kernel."""
    x, y = alt.X("x:Q", title=title), alt.Y("y:Q", title=None)
    marks = alt.Chart(table).mark_line(strokeWidth=2).encode(x=x, y=y)
    return marks.encode(color=colours("kernel", KERNELS)).properties(width=250, height=170)


if __name__ == "__main__":
    picture().save(sys.argv[1], scale_factor=1.5)
