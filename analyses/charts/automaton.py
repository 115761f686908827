"""An automaton as a picture: states on a line, arcs between them, symbols on the arcs."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import QUIET, TRAINED
from models.languages import RegularLanguage

GAP = 1.0  # distance of neighbouring states
RADIUS = 0.16
MOST_STATES = 12


def automaton_chart(transitions: pd.DataFrame) -> ChartType:
    """Draws the transitions of a complete DFA.

    Args:
        transitions: columns state (0 is the start), symbol, target, accepting; one row each.

    A set of more than half of the symbols is written as those that it leaves out ("not a"). A state
    from which no way leads on stands last.
    """
    states = transitions.drop_duplicates("state").sort_values("state")
    if len(states) > MOST_STATES:
        return note(f"{len(states)} states: too many to draw; see the table of transitions")
    symbols = list(dict.fromkeys(transitions["symbol"]))
    lines: list[dict[str, Any]] = []
    heads: list[dict[str, Any]] = []
    labels: list[dict[str, Any]] = []
    place = _places(transitions)
    for (source, target), part in transitions.groupby(["state", "target"], sort=True):
        curve = _arc(place[source], place[target])
        name = f"{source}-{target}"
        lines += [{"arc": name, "order": i, "x": x, "y": y} for i, (x, y) in enumerate(curve)]
        (x0, y0), (x1, y1) = curve[-2], curve[-1]
        heads.append({"x": x1, "y": y1, "angle": float(np.degrees(np.arctan2(x1 - x0, y1 - y0)))})
        top = curve[len(curve) // 2]
        above = 1 if place[target] >= place[source] else -1
        text = _named(part["symbol"].tolist(), symbols)
        labels.append({"x": top[0], "y": top[1] + 0.08 * above, "text": text})
    nodes = pd.DataFrame(
        {
            "x": states["state"].map(place) * GAP,
            "y": 0.0,
            "state": states["state"],
            "accepting": states["accepting"],
        }
    )
    count = len(states)
    highest = max(row["y"] for row in labels) + 0.15
    lowest = min(min(row["y"] for row in lines), -RADIUS) - 0.2
    x = alt.X("x:Q", axis=None).scale(domain=[-0.75, (count - 1) * GAP + 0.75], nice=False)
    y = alt.Y("y:Q", axis=None).scale(domain=[lowest, highest], nice=False)
    colour = "#5b8db8"
    arcs = (
        alt.Chart(pd.DataFrame(lines))
        .mark_line(color=colour, strokeWidth=1.6)
        .encode(x=x, y=y, detail="arc:N", order="order:O")
    )
    arrow = (
        alt.Chart(pd.DataFrame(heads))
        .mark_point(shape="triangle", filled=True, size=70, color=colour, opacity=1)
        .encode(x=x, y=y, angle=alt.Angle("angle:Q").scale(domain=[0, 360], range=[0, 360]))
    )
    written = alt.Chart(pd.DataFrame(labels)).mark_text(fontSize=13).encode(x=x, y=y, text="text:N")
    base = alt.Chart(nodes).encode(
        x=x,
        y=y,
        tooltip=["state", "accepting"],
    )
    outer = base.mark_point(size=700, filled=True, opacity=1, color=TRAINED)
    inner = base.transform_filter("datum.accepting").mark_point(
        size=430, filled=False, color="white", opacity=1
    )
    number = base.mark_text(color="white", fontSize=13, fontWeight="bold").encode(text="state:N")
    start = (
        alt.Chart(pd.DataFrame({"x": [-0.5], "y": [0.0], "text": ["start →"]}))
        .mark_text(color=QUIET, fontSize=12)
        .encode(x=x, y=y, text="text:N")
    )
    height = int(170 * (highest - lowest))
    longest = max(len(row["text"]) for row in labels)
    wide = min(150, max(92, 8 * longest + 14))  # of a state: four of them fit a telephone
    return alt.layer(arcs, arrow, outer, inner, number, start, written).properties(
        width=max(320, wide * count), height=max(150, min(420, height))
    )


def transitions_of(language: RegularLanguage) -> pd.DataFrame:
    """The minimal automaton of a language: one row per state and symbol, for ``automaton_chart``.

    Its states are those of the variable ``state``.
    """
    symbols = language.vocabulary.symbols
    return pd.DataFrame(
        {
            "state": np.repeat(np.arange(len(language.delta)), len(symbols)),
            "symbol": np.tile(symbols, len(language.delta)),
            "target": language.delta.ravel(),
            "accepting": np.repeat(language.accepting, len(symbols)),
        }
    )


def note(text: str) -> ChartType:
    """A sentence where a picture would be."""
    words = alt.Chart(pd.DataFrame({"text": [text]})).mark_text(size=14, color=QUIET)
    return alt.layer(words.encode(text="text:N")).properties(width=560, height=60)


def _places(transitions: pd.DataFrame) -> dict[int, int]:
    """The place of each state: by its number, but dead ones after all others."""
    exits = transitions[transitions["target"] != transitions["state"]]["state"]
    live = transitions["accepting"] | transitions["state"].isin(exits)
    order = transitions.assign(dead=~live).sort_values(["dead", "state"])["state"].unique()
    return {int(state): at for at, state in enumerate(order)}


def _arc(source: int, target: int, points: int = 31) -> list[tuple[float, float]]:
    """Points of an arc from border to border: forward above the line, back below, a loop on top."""
    t = np.linspace(0, 1, points)
    if source == target:
        angle = np.radians(235) - t * np.radians(290)
        centre, size = (source * GAP, RADIUS + 0.1), 0.17
        curve = np.stack(
            [centre[0] + size * np.cos(angle), centre[1] + size * np.sin(angle)], axis=1
        )
    else:
        way = (target - source) * GAP
        height = 0.12 + 0.28 * (abs(target - source) - 1) ** 0.8
        height += 0.22 * (target > source + 1)  # above the loops that it leaps over, and their text
        direction = np.sign(way)
        begin, end = (
            source * GAP + direction * RADIUS * 0.9,
            target * GAP - direction * RADIUS * 1.15,
        )
        curve = np.stack([begin + t * (end - begin), direction * 4 * height * t * (1 - t)], axis=1)
    return [(float(x), float(y)) for x, y in curve]


def _named(chosen: list[str], symbols: list[str]) -> str:
    """A set of symbols in few words."""
    left_out = [s for s in symbols if s not in chosen]
    if not left_out and len(symbols) > 1:
        return "any"
    if len(symbols) > 3 and len(left_out) < len(chosen):
        return "not " + ", ".join(left_out)
    return ", ".join(chosen)
