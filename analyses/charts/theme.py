"""What all pictures share: colours by meaning, and how numbers are shown under the mouse.

The colours can be told apart on a light and on a dark page.
"""

from __future__ import annotations

from typing import Any

import altair as alt

TRAINED = "#0b6e99"
"""The model that was asked, or the first of what is compared."""
UNTRAINED = "#b9c4ca"
"""The control beside it."""
CHOSEN = "#e07b39"
"""What the reader chose, and what stands out."""
FOR, AGAINST = "#009e73", "#d55e00"
"""What speaks for a verdict, and against it."""
SEVERAL = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a8a8a"]
"""Kinds without an order. Colour-blind eyes tell them apart (Okabe and Ito 2008)."""
QUIET = "#888"
"""Axes, diagonals and lines that only guide the eye."""
EDGE = "#8884"
"""Around the cells of a heatmap."""


DASHES = alt.Legend(
    symbolType="stroke",
    symbolSize=300,
    symbolStrokeColor=QUIET,
    symbolFillColor="transparent",
    symbolStrokeWidth=2,
)
"""A legend of dashes: pieces of lines, of a colour that is read on white and on black."""


def by_model(**looks: Any) -> alt.Color:
    """The colours of the trained and of the untrained model, with a legend above."""
    scale = alt.Scale(domain=["trained", "untrained"], range=[TRAINED, UNTRAINED])
    return alt.Color("model:N", title=None, scale=scale, legend=alt.Legend(orient="top", **looks))


def figures(*names: str, digits: int = 3) -> list[alt.Tooltip]:
    """Tooltips (what the mouse shows) for columns of numbers."""
    return [alt.Tooltip(f"{name}:Q", format=f".{digits}f") for name in names]


def interval(base: alt.Chart) -> alt.Chart:
    """A horizontal line from low to high."""
    return base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q", color=alt.value("#777"))


def frame(base: alt.Chart, field: str, chosen: str) -> alt.Chart:
    """A frame around the cells of a heatmap whose field has the chosen value."""
    shown = base.transform_filter(alt.FieldEqualPredicate(field=field, equal=chosen))
    return shown.mark_rect(filled=False, stroke=CHOSEN, strokeWidth=3)


def click(field: str) -> alt.Parameter:
    """Cells that can be clicked: the selection "cell" holds the field."""
    return alt.selection_point(name="cell", fields=[field], empty=False)
