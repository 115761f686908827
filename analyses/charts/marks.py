"""The marks that pictures are made of: a curve, bars, points with intervals, a heatmap, dots, and
panels. Axes and colours come from the caller, looks from here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import CHOSEN, EDGE

Tips = Sequence[Any]
"""The tips under the mouse: names of columns, and tooltips."""
Ends = tuple[str, str] | None
"""The columns of an interval's ends; None draws no interval."""
LOW_HIGH: Ends = ("low", "high")


def encoded(chart: alt.Chart, **channels: Any) -> alt.Chart:
    """A chart with these channels, each as an object of altair's own class.

    Altair also takes plain names and values. But then it looks for the class itself, which takes
    milliseconds each time, and a page has hundreds of channels.
    """
    return chart.encode(**{name: _channel(name, given) for name, given in channels.items()})


def _channel(name: str, given: Any) -> Any:
    kind = name[0].upper() + name[1:]
    if isinstance(given, str):
        return getattr(alt, kind)(given)
    if isinstance(given, dict) and "value" in given:
        return getattr(alt, f"{kind}Value")(**given)
    if isinstance(given, list | tuple):
        return [_channel(name, part) for part in given]
    return given


def curve(
    rows: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    tips: Tips,
    color: Any,
    ends: Ends = LOW_HIGH,
    band: bool = False,
    size: int = 40,
    **more: Any,
) -> alt.LayerChart:
    """A line through points; their intervals as bars, or as a band.

    Args:
        size: size of the points; 0 draws none.
        more: further encodings.
    """
    base = encoded(alt.Chart(), x=x, color=color, tooltip=tips, **more)
    line = base.mark_line(point=alt.OverlayMarkDef(size=size) if size else False).encode(y=y)
    span = base.mark_area(opacity=0.15) if band else base.mark_rule()
    return _layered(rows, *_spans(span, ends, "y"), line)


def bars(
    rows: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    tips: Tips,
    color: Any,
    ends: Ends = LOW_HIGH,
    step: int = 14,
    **more: Any,
) -> alt.LayerChart:
    """A horizontal bar per category, with its interval in grey.

    Args:
        step: the height of a bar, in pixels.
        more: further encodings.
    """
    base = encoded(alt.Chart(), y=y, tooltip=tips, **more)
    rule = encoded(base.mark_rule(strokeWidth=1.5), color=alt.value("#777"))
    layers = [encoded(base.mark_bar(), x=x, color=color), *_spans(rule, ends, "x")]
    return _layered(rows, *layers, height=alt.Step(step))


def points(
    rows: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    tips: Tips,
    color: Any,
    ends: Ends = LOW_HIGH,
    step: int = 18,
    size: int = 60,
    **more: Any,
) -> alt.LayerChart:
    """A point per category, with its interval in the same colour: a bar of 0% would not be seen.

    Args:
        step: the height of a category, in pixels.
        more: further encodings.
    """
    base = encoded(alt.Chart(), y=y, color=color, tooltip=tips, **more)
    point = base.mark_point(filled=True, size=size, opacity=1).encode(x=x)
    rule = base.mark_rule(clip=True)
    return _layered(rows, *_spans(rule, ends, "x"), point, height=alt.Step(step))


def dots(
    rows: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    tips: Tips,
    color: Any,
    ends: Ends = LOW_HIGH,
    across: bool = False,
    size: int = 60,
    opacity: float = 0.7,
    **more: Any,
) -> alt.LayerChart:
    """A dot per row in a plane, with its interval.

    Args:
        across: the interval is that of ``x``, and not that of ``y``.
        more: further encodings.
    """
    base = encoded(alt.Chart(), color=color, tooltip=tips, **more)
    point = base.mark_point(filled=True, size=size, opacity=opacity).encode(x=x, y=y)
    rule = base.mark_rule(opacity=0.5).encode(y=y) if across else base.mark_rule().encode(x=x)
    return _layered(rows, *_spans(rule, ends, "x" if across else "y"), point)


def heat(
    rows: pd.DataFrame,
    x: alt.X,
    y: alt.Y,
    tips: Tips,
    color: alt.Color,
    text: alt.Text | str | None = None,
    ink: Any = None,
    framed: Any = None,
    click: str | None = None,
    edge: bool = True,
) -> alt.LayerChart:
    """A coloured cell per row of the table.

    Args:
        text: the text in each cell.
        ink: the colour of the text where it is not black; see ``white_where``.
        framed: a predicate of the cells with a frame.
        click: the column that a click selects, in the parameter "cell".
        edge: draw a thin line around each cell; very small ones would be hidden by it.
    """
    base = encoded(alt.Chart(), x=x, y=y, tooltip=tips)
    cells = base.mark_rect(stroke=EDGE if edge else alt.Undefined, strokeWidth=0.5)
    cells = encoded(cells, color=color)
    if click:
        cells = cells.add_params(alt.selection_point(name="cell", fields=[click], empty=False))
    layers = [cells]
    if framed is not None:
        frame = base.transform_filter(framed)
        layers.append(frame.mark_rect(filled=False, stroke=CHOSEN, strokeWidth=3))
    if text is not None:
        shade = alt.value("black") if ink is None else ink
        layers.append(encoded(base.mark_text(fontSize=12), text=text, color=shade))
    return _layered(rows, *layers)


def white_where(dark: Any) -> Any:
    """White text on the cells that are dark, black text on all others.

    Args:
        dark: an expression of ``datum``.
    """
    return alt.condition(dark, alt.value("white"), alt.value("black"))


def panels(
    parts: Mapping[str, ChartType] | Iterable[tuple[str, ChartType]], columns: int = 2
) -> ChartType:
    """Small multiples: each picture below its title."""
    pairs = parts.items() if isinstance(parts, Mapping) else parts
    return alt.concat(*(part.properties(title=name) for name, part in pairs), columns=columns)


def _spans(base: alt.Chart, ends: Ends, axis: str) -> list[alt.Chart]:
    """The layer of intervals along an axis, if there are any."""
    if ends is None:
        return []
    low, high = (f"{end}:Q" for end in ends)
    return [encoded(base, **{axis: low, f"{axis}2": high})]


def _layered(rows: pd.DataFrame, *layers: alt.Chart, **size: Any) -> alt.LayerChart:
    """Layers of one table. A layer that had it would print the whole of it, to name itself."""
    return alt.LayerChart(data=rows, layer=layers, **size)


def in_a_row(charts: Iterable[ChartType]) -> alt.HConcatChart:
    """Charts side by side, each with colours of its own, for a file: none of them takes clicks."""
    still = (chart.properties(params=[]) for chart in charts)
    return alt.hconcat(*still).resolve_scale(color="independent")
