"""The picture of sinusoidal positions on the page of the lectures: their values, and one step.

    python docs/sinusoids.py docs/pages/sinusoids.png

Left, each dimension of PE(pos), at four places from one whole position to the next: a position may
be a fraction. Right, the matrix that turns PE(pos) into PE(pos + k), which is the same for all pos.
Change the numbers and look again.
"""

from __future__ import annotations

import sys

import altair as alt
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from analyses.charts.marks import heat
from models.transformer.positions import sinusoidal

WIDTH, LAST, PARTS, STEP = 32, 40, 4, 5
"""Dimensions of PE, the last position, the places looked at for each position, and k."""


def values() -> pd.DataFrame:
    """PE, drawn: columns position (it may be a fraction), dimension, value."""
    places = torch.arange(LAST * PARTS + 1, dtype=torch.float64) / PARTS
    table = sinusoidal(places, WIDTH, dtype=torch.float64)
    rows = pd.DataFrame(table.numpy(), places.numpy()).rename_axis("position").reset_index()
    return rows.melt("position", None, "dimension", "value")


def step(k: float) -> Float[Tensor, "to from"]:
    """The matrix M of PE(pos + k) = M PE(pos): each pair of sine and cosine turns by one angle.

    By the addition theorems its cosines and sines are those of PE(k), in dimensions 2i + 1 and 2i.
    """
    sines, cosines = sinusoidal(torch.tensor(k), WIDTH, dtype=torch.float64).view(-1, 2).unbind(-1)
    pairs = torch.stack([cosines, sines, -sines, cosines], dim=-1).view(-1, 2, 2)
    return torch.block_diag(*pairs)


def picture() -> alt.HConcatChart:
    """Both heatmaps."""
    matrix = pd.DataFrame(step(STEP).numpy()).rename_axis("to").reset_index()
    cells = matrix.melt("to", None, "from", "value")
    drawn = _cells(values(), "position", "dimension", "PE(pos)", 3)
    drawn |= _cells(cells, "from", "to", f"M of PE(pos + {STEP}) = M PE(pos)", 8)
    return drawn.configure(background="white", padding=12).configure_view(stroke=None)


def _cells(rows: pd.DataFrame, x: str, y: str, title: str, size: int) -> alt.LayerChart:
    """A heatmap of the values, blue where they are positive.

    Args:
        size: width of a cell, a whole number of pixels: else white lines are seen between cells.
    """
    across = alt.X(f"{x}:O").axis(labelAngle=0, values=list(range(0, LAST + 1, 5)), format="~g")
    down = alt.Y(f"{y}:O").axis(values=list(range(0, WIDTH, 4)))
    color = alt.Color("value:Q", title=None).scale(scheme="redblue", domain=[-1, 0, 1])
    cells = heat(rows, across, down, [x, y, "value"], color, edge=False)
    return cells.properties(width=size * rows[x].nunique(), height=8 * WIDTH, title=title)


if __name__ == "__main__":
    picture().save(sys.argv[1], scale_factor=2)
