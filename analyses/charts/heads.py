"""Pictures of heads: what ablating one costs, what it adds, where it looks; a measure of all heads
as a grid; attention patterns."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import bars, heat
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


def pattern_chart(table: pd.DataFrame, word: Sequence[str]) -> ChartType:
    """Attention of every head on one word, query down, key across.

    Args:
        table: the patterns of ``interp.heads``: layer, head, query, key, attention.
        word: its tokens, BOS first.
    """
    tokens = [f"{i} {token}" for i, token in enumerate(word)]
    shown = table.assign(
        query=[tokens[q] for q in table["query"]],
        key=[tokens[k] for k in table["key"]],
        name="L" + table["layer"].astype(str) + "H" + table["head"].astype(str),
    )
    size = max(90, 17 * len(tokens))
    cells = heat(
        shown,
        alt.X("key:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=12),
        alt.Y("query:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=12),
        ["name", "query", "key", *figures("attention")],
        alt.Color("attention:Q").scale(domain=[0, 1], scheme="blues"),
    )
    cells = cells.properties(width=size, height=size)
    return cells.facet(facet=alt.Facet("name:N", title=None), columns=4)
