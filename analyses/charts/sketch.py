"""A pen for architectures: boxes, arrows and sums in pixels, from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import encoded
from analyses.charts.theme import TRAINED
from models.base import LanguageModel

INK = "#7d858d"  # readable on white and on black
COLOURS = {
    "token": "#5f6b76",
    "embed": "#6b5ca5",
    "position": "#a8477a",
    "norm": "#96661d",
    "mix": TRAINED,
    "mlp": "#2b7a55",
}

WIDTH, STREAM, LEFT, RIGHT = 380, 32, 84, 366
MIDDLE, THIRD, SPACE = (LEFT + RIGHT) / 2, 86, 15
WHOLE = (12.0, float(RIGHT))
CENTRE = sum(WHOLE) / 2
THIRDS = tuple(LEFT + THIRD / 2 + i * (RIGHT - LEFT - THIRD) / 2 for i in range(3))
HALVES = ((LEFT + MIDDLE - 8) / 2, (MIDDLE + 8 + RIGHT) / 2)


Beside = tuple[tuple[float, float], str, str, str]


@dataclass
class Sketch:
    """A drawing in pixels, made from top to bottom; ``y`` is the lowest point so far."""

    model: LanguageModel
    positions: int
    y: float = 6.0
    boxes: list[dict[str, Any]] = field(default_factory=list)
    frames: list[dict[str, Any]] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    sums: list[dict[str, Any]] = field(default_factory=list)
    words: list[dict[str, Any]] = field(default_factory=list)
    cells: list[dict[str, Any]] = field(default_factory=list)

    @property
    def stream(self) -> str:
        """The shape of what enters and leaves every part."""
        return f"{self.positions} × {self.model.config.d_model}"

    def count(self, name: str) -> int:
        """The parameters of a module, or of a weight; 0 where there is none of this name."""
        pairs = self.model.named_parameters()
        return sum(p.numel() for n, p in pairs if f"{n}.".startswith(f"{name}."))

    def box(
        self,
        kind: str,
        title: str,
        *details: str,
        span: tuple[float, float] = (LEFT, RIGHT),
        hook: str = "",
        weights: str | int = "",
    ) -> None:
        """A box, below which the drawing goes on.

        Args:
            weights: number of its parameters, or the name of the module or weight with them.
        """
        numbers = self.count(weights) if isinstance(weights, str) else weights
        if numbers:
            details = (*details, f"{numbers:,} params")
        if span[1] - span[0] > 1.5 * THIRD and len(details) == 2:
            details = (f"{details[0]}  ·  {details[1]}",)
        bottom = self.y + 23 + 13 * len(details)
        tip = {"part": title, "shape and parameters": " · ".join(details), "hook": hook}
        place = {"x": span[0], "x2": span[1], "y": self.y, "y2": bottom}
        self.boxes.append({**place, "color": COLOURS[kind], **tip})
        middle = (span[0] + span[1]) / 2
        self.write(middle, self.y + 12, title, "title")
        for i, line in enumerate(details):
            self.write(middle, self.y + 26.5 + 13 * i, line, "detail")
        self.y = bottom

    def row(self, kind: str, shape: str, *boxes: Beside) -> None:
        """Boxes of one kind and shape side by side: (span, title, hook, weights) of each."""
        top = self.y
        for span, title, hook, weights in boxes:
            self.y = top
            self.box(kind, title, shape, span=span, hook=hook, weights=weights)

    def write(self, x: float, y: float, text: str, style: str) -> None:
        self.words.append({"x": x, "y": y, "text": text, "style": style})

    def line(self, *points: tuple[float, float], arrow: bool = True, wide: bool = False) -> None:
        """A line through the points, with an arrowhead at the last."""
        number = len(self.lines)
        for i, (x, y) in enumerate(points):
            self.lines.append({"x": x, "y": y, "order": i, "line": number, "wide": wide})
        if arrow:
            (x0, y0), (x1, y1) = points[-2:]
            angle = float(np.degrees(np.arctan2(x1 - x0, y0 - y1))) % 360
            back = np.array([x1 - x0, y1 - y0]) / max(np.hypot(x1 - x0, y1 - y0), 1e-9) * 4
            self.heads.append({"x": x1 - back[0], "y": y1 - back[1], "angle": angle})

    def down(self, *xs: float, by: float = SPACE) -> None:
        """Arrows from here to the next row."""
        for x in xs:
            self.line((x, self.y), (x, self.y + by))
        self.y += by

    def plus(self, x: float, y: float, sign: str = "+") -> None:
        self.sums.append({"x": x, "y": y, "sign": sign})

    def back(self, added: bool = True) -> None:
        """The end of a branch, added to the stream; if not, it goes on alone."""
        end = STREAM + 9 if added else STREAM
        self.line((MIDDLE, self.y), (MIDDLE, self.y + 13), (end, self.y + 13), arrow=added)
        self.y += 13
        if added:
            self.plus(STREAM, self.y)

    def mask(self, kind: str, right: float, top: float) -> None:
        """A small picture of the mask: filled where a query (down) may attend to a key (across)."""
        for i in range(4):
            for j in range(4):
                open_ = kind == "bidirectional" or j < i or (j == i and kind == "causal")
                x, y = right + 6.5 * (j - 4), top + 6.5 * i
                place = {"x": x, "x2": x + 5.5, "y": y, "y2": y + 5.5}
                self.cells.append({**place, "opacity": 0.95 if open_ else 0.22})

    def frame(self, top: float, bottom: float, text: str) -> None:
        self.frames.append({"x": 4, "x2": 376, "y": top, "y2": bottom})
        self.write(RIGHT, top + 11, text, "frame")

    def chart(self) -> ChartType:
        height = self.y + 6
        x = alt.X("x:Q", axis=None).scale(domain=[0, WIDTH], nice=False)
        y = alt.Y("y:Q", axis=None).scale(domain=[height, 0], nice=False)

        def marks(rows: list[dict[str, Any]]) -> alt.Chart:
            return alt.Chart(pd.DataFrame(rows)).encode(x=x, y=y)

        def rectangles(rows: list[dict[str, Any]], **look: Any) -> alt.Chart:
            return encoded(marks(rows).mark_rect(**look), x2="x2:Q", y2="y2:Q")

        layers: list[alt.Chart] = []
        look: dict[str, Any]
        if self.frames:
            look = {"cornerRadius": 12, "fill": INK, "fillOpacity": 0.1, "stroke": INK}
            layers.append(rectangles(self.frames, **look, strokeDash=[4, 3], strokeOpacity=0.7))
        for wide in (True, False):
            if some := [row for row in self.lines if row["wide"] == wide]:
                look = {"strokeWidth": 3.5 if wide else 1.5, "strokeJoin": "round", "color": INK}
                line = marks(some).mark_line(**look)
                layers.append(encoded(line, detail="line:N", order="order:O"))
        pointing = alt.Angle("angle:Q").scale(domain=[0, 360], range=[0, 360])
        head = marks(self.heads).mark_point(shape="triangle", filled=True, size=52, opacity=1)
        layers.append(encoded(head, angle=pointing, color=alt.value(INK)))
        boxes = rectangles(self.boxes, cornerRadius=6, opacity=1)
        tips = ["part:N", "shape and parameters:N", "hook:N"]
        layers.append(encoded(boxes, color=alt.Color("color:N").scale(None), tooltip=tips))
        if self.sums:
            look = {"filled": True, "size": 330, "color": INK, "opacity": 1}
            layers.append(marks(self.sums).mark_point(shape="circle", **look))
            sign = marks(self.sums).mark_text(color="white", fontSize=16, fontWeight="bold")
            layers.append(encoded(sign, text="sign:N"))
        if self.cells:
            opacity = alt.Opacity("opacity:Q", legend=None).scale(None)
            layers.append(rectangles(self.cells, fill="white").encode(opacity=opacity))
        styles: dict[str, dict[str, Any]] = {
            "title": {"color": "white", "fontSize": 12, "fontWeight": "bold"},
            "detail": {"color": "white", "fontSize": 12},
            "plain": {"color": INK, "fontSize": 12},
            "start": {"color": INK, "fontSize": 12, "align": "left"},
            "frame": {"color": INK, "fontSize": 12, "fontWeight": "bold", "align": "right"},
            "along": {"color": INK, "fontSize": 12, "angle": 270},
        }
        for style, look in styles.items():
            if some := [row for row in self.words if row["style"] == style]:
                words = marks(some).mark_text(baseline="middle", **look)
                layers.append(encoded(words, text="text:N"))
        return alt.layer(*layers).properties(width=WIDTH, height=height).configure_view(stroke=None)
