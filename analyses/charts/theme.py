"""The look that all pictures share: colours by meaning, and numbers under the mouse.

The colours can be told apart on a light and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import altair as alt
from altair.utils.schemapi import disable_debug_mode

# A chart is checked whole when it is shown. To check each part as it is made takes a fifth of the
# time of a page.
disable_debug_mode()

Axis = TypeVar("Axis", alt.X, alt.Y)

TRAINED = "#0b6e99"
"""The model in question, or the first of several that are compared."""
UNTRAINED = "#b9c4ca"
"""The control beside it."""
CHOSEN = "#e07b39"
"""The reader's choice, and marks that stand out."""
FOR, AGAINST = "#009e73", "#d55e00"
"""Evidence for a verdict, and against it."""
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


def colours(
    field: str,
    names: Sequence[str],
    colors: Sequence[str] = SEVERAL,
    title: str | None = None,
    shown: bool = True,
    **legend: Any,
) -> alt.Color:
    """A colour for each name, with a legend above; a rainbow for very many names.

    Args:
        shown: draw a legend.
        legend: options of the legend's look.
    """
    rainbow: dict[str, Any] = {"scheme": "turbo"}
    palette = {"range": list(colors)[: len(names)]} if len(names) <= len(colors) else rainbow
    usual: dict[str, Any] = {"orient": "top", "symbolOpacity": 1}
    look = alt.Legend(**usual | legend) if shown else None
    scale = alt.Scale(domain=list(names), **palette)
    return alt.Color(f"{field}:N", title=title, sort=list(names), scale=scale, legend=look)


def by_model(**legend: Any) -> alt.Color:
    """The colours of the trained and of the untrained model, with a legend above."""
    return colours("model", ["trained", "untrained"], [TRAINED, UNTRAINED], **legend)


def share(axis: type[Axis], field: str, title: str | None = None) -> Axis:
    """An axis from 0% to 100%."""
    return axis(f"{field}:Q", title=title).scale(domain=[0, 1]).axis(format="%")


def named(
    axis: type[Axis],
    field: str,
    order: Sequence[str] | None = None,
    title: str | None = None,
    **look: Any,
) -> Axis:
    """An axis of names, all of them shown: slanted below a picture, in full beside it.

    Args:
        look: options of the labels' look.
    """
    usual: dict[str, Any] = {"labelAngle": -60} if axis is alt.X else {"labelLimit": 260}
    encoding = axis(f"{field}:N", sort=order, title=title)
    return encoding.axis(alt.Axis(labelOverlap=False, **usual | look))


def figures(*names: str, digits: int = 3) -> list[alt.Tooltip]:
    """Tooltips (what the mouse shows) for columns of numbers."""
    return [alt.Tooltip(f"{name}:Q", format=f".{digits}f") for name in names]
