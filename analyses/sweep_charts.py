"""The chart of a sweep: recognition by length."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.results import Result

POINTS = 24
"""Of a line: hundreds of lengths are averaged in so many groups of neighbours."""


def chart(result: Result) -> ChartType:
    """A panel per language: the balanced recognition by length, a thin line per seed and a thick
    one for their mean; the colour is the setting, the rule the end of the training window."""
    table = curves(result.table, result.arguments["by"])
    names = list(dict.fromkeys(table["language"]))
    base = alt.Chart(table).encode(
        x=alt.X("length:Q", title="word length (symbols)").scale(nice=False, zero=False),
        y=alt.Y("mean(right):Q", title="recognition").scale(domain=[0, 1]).axis(format="%"),
        color=alt.Color("setting:N", title=None, sort=list(dict.fromkeys(table["setting"]))),
    )
    seeds = base.mark_line(opacity=0.3, strokeWidth=1).encode(detail="seed:N")
    mean = base.mark_line(strokeWidth=2.5).encode(tooltip=["language", "setting", "mean(right)"])
    window = alt.Chart(table).mark_rule(strokeDash=[4, 4]).encode(x="max(window):Q")
    return (
        alt.layer(window, seeds, mean)
        .properties(width=260, height=180)
        .facet(alt.Facet("language:N", title=None, sort=names), columns=3)
        .resolve_scale(x="independent")
    )


def curves(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Columns: language, setting, seed, length (the mean of a group), window, right (balanced)."""
    halves = table[["members", "others"]].astype(float)
    setting = table[by].astype(str).agg(", ".join, axis=1) if by else "all"
    rows = table[["language", "seed", "length", "window"]].assign(
        right=halves.mean(axis=1), setting=setting
    )
    spans = rows.groupby("language")["length"].agg(["min", "max"]).loc[rows["language"]]
    reach = (spans["max"] - spans["min"] + 1).to_numpy()
    group = (rows["length"].to_numpy() - spans["min"].to_numpy()) * POINTS // reach
    keys = ["language", "setting", "seed", "window"]
    grouped = rows.assign(group=group).groupby([*keys, "group"], sort=False)
    return grouped[["length", "right"]].mean().reset_index().drop(columns="group")
