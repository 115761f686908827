"""Pictures of heads: what ablating one costs, what it adds, where it looks; a measure of all heads
as a grid; attention patterns."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.theme import (
    AGAINST,
    FOR,
    QUIET,
    TRAINED,
    UNTRAINED,
    click,
    figures,
    frame,
    interval,
)

LOOK = "attention against effect"
"""The measure of whether a head looks where changing a symbol matters."""


def chart(result: Answer) -> ChartType:
    """What ablating each head costs, what each part adds to END's logit, and where it looks."""
    table = result.table
    parts = list(dict.fromkeys(table["part"]))

    def bars(rows: pd.DataFrame, title: str, colours: list[str], by: str) -> ChartType:
        base = alt.Chart(rows).encode(
            y=alt.Y("part:N", sort=parts, title=None),
            yOffset=alt.YOffset(f"{by}:N", sort=list(dict.fromkeys(rows[by]))),
            tooltip=["model", "measure", "part", *figures("value", "low", "high")],
        )
        colour = alt.Color(f"{by}:N", title=None, sort=list(dict.fromkeys(rows[by])))
        colour = colour.scale(range=colours).legend(orient="top", columns=1)
        bar = base.mark_bar().encode(x=alt.X("value:Q", title=title), color=colour)
        return (bar + interval(base)).properties(width=220, height=alt.Step(11))

    lost = table[table["measure"] == "accuracy lost, mean ablation"]
    direct = table[(table["model"] == "trained") & table["measure"].str.startswith("direct")]
    look = table[table["measure"] == LOOK]
    pair = [TRAINED, UNTRAINED]
    charts = [
        bars(lost, "accuracy lost without the head", pair, "model"),
        bars(direct, "added to END's logit", [FOR, AGAINST], "measure"),
    ]
    if len(look):
        charts.append(bars(look, "attention against effect", pair, "model"))
    return alt.hconcat(*charts).resolve_scale(
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
    pale = rows["value"].abs() < 0.65 * largest
    shown = rows.assign(
        layer="L" + rows["layer"].astype(str),
        head="H" + rows["head"].astype(str),
        text=[
            f"{value:.2f}" if defined else "undefined"
            for value, defined in zip(rows["value"], rows["value"].notna(), strict=True)
        ],
        ink=np.where(rows["value"].isna(), "none", np.where(pale, "pale", "deep")),
    )
    base = alt.Chart(shown).encode(
        x=alt.X("head:N", sort=None, title=None).axis(labelAngle=0, orient="top"),
        y=alt.Y("layer:N", sort=None, title=None),
        tooltip=[
            "part",
            "measure",
            *figures("value", "low", "high", "uniform"),
            "words:Q",
            "undefined:Q",
        ],
    )
    cells = base.mark_rect(stroke="#8886", strokeWidth=0.5, cursor="pointer").encode(
        color=alt.Color("value:Q", title=None).scale(scale).legend(None)
    )
    cells = cells.add_params(click("part"))
    numbers = base.mark_text(fontSize=12).encode(
        text="text:N",
        color=alt.Color("ink:N")
        .scale(domain=["pale", "deep", "none"], range=["#222", "#fff", QUIET])
        .legend(None),
    )
    layers = (cells + frame(base, "part", chosen) + numbers).resolve_scale(color="independent")
    return layers.properties(
        width=alt.Step(62), height=alt.Step(40), title=alt.Title(model, anchor="start")
    )


def pattern_chart(table: pd.DataFrame, word: Sequence[str]) -> ChartType:
    """Attention of every head on one word, query down, key across.

    Args:
        table: of ``interp.heads``' patterns: layer, head, query, key, attention.
        word: its tokens, BOS first.
    """
    tokens = [f"{i} {token}" for i, token in enumerate(word)]
    named = table.assign(
        query=[tokens[q] for q in table["query"]],
        key=[tokens[k] for k in table["key"]],
        name="L" + table["layer"].astype(str) + "H" + table["head"].astype(str),
    )
    size = max(90, 17 * len(tokens))
    return (
        alt.Chart(named)
        .mark_rect()
        .encode(
            x=alt.X("key:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=12),
            y=alt.Y("query:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=12),
            color=alt.Color("attention:Q").scale(domain=[0, 1], scheme="blues"),
            tooltip=["name", "query", "key", *figures("attention")],
        )
        .properties(width=size, height=size)
        .facet(facet=alt.Facet("name:N", title=None), columns=4)
    )
