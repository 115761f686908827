"""Pictures of heads: what ablating one costs, what it adds, where it looks; a measure of all heads
as a grid; attention patterns."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import bars, encoded, heat
from analyses.charts.theme import AGAINST, FOR, QUIET, TRAINED, UNTRAINED, colours, figures

LOOK = "attention against effect"
"""The measure of whether a head looks where changing a symbol matters."""


def chart(result: Answer) -> ChartType:
    """The cost of ablating each head, each part's addition to END's logit, and where heads look."""
    table = result.table
    parts, pair = list(dict.fromkeys(table["part"])), [TRAINED, UNTRAINED]
    direct = (table["model"] == "trained") & table["measure"].str.startswith("direct")
    pictures = []
    for rows, title, colors, by in (
        (
            table["measure"] == "accuracy lost, mean ablation",
            "accuracy lost without the head",
            pair,
            "model",
        ),
        (direct, "added to END's logit", [FOR, AGAINST], "measure"),
        (table["measure"] == LOOK, LOOK, pair, "model"),
    ):
        names = list(dict.fromkeys(table.loc[rows, by]))
        picture = bars(
            table[rows],
            alt.X("value:Q", title=title),
            alt.Y("part:N", sort=parts, title=None),
            ["model", "measure", "part", *figures("value", "low", "high")],
            colours(by, names, colors, columns=1),
            step=11,
            yOffset=alt.YOffset(f"{by}:N", sort=names),
        )
        pictures += [picture.properties(width=220)] if names else []
    return alt.hconcat(*pictures).resolve_scale(
        color="independent", y="independent", yOffset="independent"
    )


def grid(table: pd.DataFrame, measure: str, model: str, chosen: str) -> ChartType:
    """One measure of every head: layers down, heads across, the chosen head in a frame.

    A click selects: the parameter "cell" holds the part.
    """
    rows = table[(table["measure"] == measure) & (table["head"] >= 0)]
    unbounded = measure.startswith(("direct", "distance"))
    largest = rows["value"].abs().max() if unbounded else 1.0
    scale = alt.Scale(domain=[0, largest], scheme="blues")
    if not measure.startswith(("attention, ", "distance", "shared")):
        scale = alt.Scale(domain=[-largest, 0, largest], scheme="redblue")
    rows = rows[rows["model"] == model]
    shown = rows.assign(
        layer="L" + rows["layer"].astype(str),
        head="H" + rows["head"].astype(str),
        text=[f"{value:.2f}" if value == value else "undefined" for value in rows["value"]],
    )
    return heat(
        shown,
        alt.X("head:N", sort=None, title=None).axis(labelAngle=0, orient="top"),
        alt.Y("layer:N", sort=None, title=None),
        ["part", "measure", *figures("value", "low", "high", "uniform"), "words", "undefined"],
        alt.Color("value:Q", scale=scale, legend=None),
        "text:N",
        alt.when("!isValid(datum.value)")
        .then(alt.value(QUIET))
        .when(f"abs(datum.value) >= {0.65 * largest}")
        .then(alt.value("white"))
        .otherwise(alt.value("#222")),
        framed=alt.FieldEqualPredicate(field="part", equal=chosen),
        click="part",
    ).properties(width=alt.Step(62), height=alt.Step(40), title=alt.Title(model, anchor="start"))


def looks_chart(
    table: pd.DataFrame, tokens: Sequence[str], query: int, value: str, chosen: str
) -> ChartType:
    """The looks of every head from one symbol: heads down, the symbols that are looked at across. A
    click selects: the parameter "cell" holds the part.

    Args:
        table: the looks of ``looks.on_word``.
        tokens: the word, BOS first.
        query: the position of the symbol that is read.
        value: "attention", or "moved": what hangs on the look.
        chosen: the part in a frame.
    """
    words = [f"{i} {token}" for i, token in enumerate(tokens)]
    rows = table[table["query"] == query].assign(key=lambda t: [words[key] for key in t["key"]])
    most = _most(table, value)
    scale = alt.Scale(domain=[-most, 0, most], scheme="redblue")
    return heat(
        rows,
        alt.X("key:N", sort=words, title=None).axis(labelOverlap=False, labelFontSize=12),
        alt.Y("part:N", sort=None, title=None).axis(labelFontSize=12),
        LOOKED,
        alt.Color(f"{value}:Q", title=None, scale=SHARES if value == "attention" else scale),
        framed=alt.FieldEqualPredicate(field="part", equal=chosen),
        click="part",
    ).properties(width=alt.Step(26), height=alt.Step(24))


LOOKED = ["part", "key", *figures("attention", "moved")]
SHARES = alt.Scale(domain=[0, 1], scheme="blues")


def _most(table: pd.DataFrame, value: str) -> float:
    """The largest value there may be: all attention; or of what moves, the largest there is."""
    return 1.0 if value == "attention" else float(table[value].abs().max()) or 1.0


def lines_chart(table: pd.DataFrame, tokens: Sequence[str], query: int, value: str) -> ChartType:
    """The looks of one head: lines from the symbols that it reads, left, to those that it looks at,
    right, the darker the more. The mouse on a symbol shows its lines above all others.

    Args:
        table, tokens, value: see ``looks_chart``.
        query: the symbol whose lines are shown before the mouse is anywhere.
    """
    strength = table[value].abs() / _most(table, value)
    rows = table.assign(shown=strength, faint=strength / 4)
    names = pd.DataFrame({"query": range(len(tokens)), "token": list(tokens)})
    here = alt.selection_point("here", fields=["query"], on="pointerover", value=query, empty=False)
    y = alt.Y("query:Q", axis=None).scale(domain=[len(tokens) - 0.5, -0.5])
    left, right = alt.value(LEFT), alt.value(RIGHT)
    line = alt.Chart(rows).mark_rule(strokeWidth=3).encode(y, alt.Y2("key:Q"), x=left, x2=right)
    color = alt.condition(f"datum.{value} < 0", alt.value(AGAINST), alt.value(FOR))
    faint, strong = (
        encoded(line, opacity=alt.Opacity(f"{name}:Q", scale=None), color=color, tooltip=LOOKED)
        for name in ("faint", "shown")
    )
    side = alt.Chart(names).encode(y, text="token:N")
    ink = alt.condition(here, alt.value(1), alt.value(0.55))
    read = encoded(side.mark_text(align="right", dx=-6, fontSize=14), x=left, opacity=ink)
    seen = encoded(side.mark_text(align="left", dx=6, fontSize=14), x=right)
    drawn = alt.layer(faint, strong.transform_filter(here), read.add_params(here), seen)
    return drawn.properties(width=LEFT + RIGHT, height=24 * len(tokens))


LEFT, RIGHT = 80, 220
"""Pixels from the left at which the lines of a head begin and end."""
