"""Pictures of discoveries, beside the automaton: how far a rule holds, which heads carry it, and
how often planted rules come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.theme import figures
from interp.statistics import wilson

BY = {"lines": "lines", "noise": "noise", "disfluent": "disfluent"}
"""By which column the outcomes of a study of planted rules are shown; by family, where none is
named."""
OUTCOMES = ("exact", "no reliable rule", "wrong rule")


def length_chart(found: Mapping[str, Any]) -> ChartType:
    """Held-out lines that the rule and the network get right, by length."""
    rows = [
        {"length": row["length"], "lines": row["count"], "who": who, "right": row[who]}
        for row in found["by_length"]
        for who in ("rule", "network")
    ]
    base = alt.Chart(pd.DataFrame(rows)).encode(
        x=alt.X("length:Q", title="symbols in the line").axis(tickMinStep=1),
        y=alt.Y("right:Q", title="held-out lines right").scale(domain=[0, 1]).axis(format="%"),
        color=alt.Color("who:N", title=None, sort=["rule", "network"]),
        tooltip=["length", "lines", "who", alt.Tooltip("right:Q", format=".1%")],
    )
    return (base.mark_line() + base.mark_point(filled=True, size=40)).properties(
        width=420, height=180
    )


def heads_chart(found: Mapping[str, Any]) -> ChartType:
    """What each head carries of each transition, in logits, with the control in the last row."""
    table = pd.DataFrame(found["heads"])
    table["head"] = [f"L{row.layer}H{row.head}" for row in table.itertuples()]
    table["transition"] = [
        "control: none" if row.source < 0 else f"{row.source} → {row.target}"
        for row in table.itertuples()
    ]
    order = [t for t in dict.fromkeys(table["transition"]) if t[0] != "c"] + ["control: none"]
    largest = float(table["moved"].abs().max()) or 1.0
    base = alt.Chart(table).encode(
        x=alt.X("head:N", title=None).axis(labelAngle=0),
        y=alt.Y("transition:N", title="the automaton moves", sort=order),
        tooltip=[
            "transition",
            "head",
            "pairs",
            *figures("moved", "low", "high", "whole", digits=2),
        ],
    )
    scale = alt.Scale(scheme="purpleorange", domain=[-largest, largest], domainMid=0)
    cells = base.mark_rect().encode(
        color=alt.Color("moved:Q", title="logit moved", scale=scale),
    )
    strong = alt.datum["moved"] ** 2 > (0.6 * largest) ** 2
    text = base.mark_text(fontSize=12).encode(
        text=alt.Text("moved:Q", format=".1f"),
        color=alt.when(strong).then(alt.value("white")).otherwise(alt.value("#333")),
    )
    return (cells + text).properties(width=alt.Step(52), height=alt.Step(26))


def shares(table: pd.DataFrame, by: str = "family") -> pd.DataFrame:
    """Outcomes by family (or another column) and way; the exact share has Wilson's interval."""
    rows = []
    for (name, way), part in table.groupby([by, "way"], sort=False):
        counts: Mapping[str, int] = part["outcome"].value_counts()
        exact = int(counts.get("exact", 0))
        low, high = wilson(exact, len(part))
        row = {by: name, "way": way, "corpora": len(part), "share": exact / len(part)}
        rows.append(row | {"low": low, "high": high} | {o: int(counts.get(o, 0)) for o in OUTCOMES})
    return pd.DataFrame(rows)


def by_class(table: pd.DataFrame) -> pd.DataFrame:
    """The means of exact, SR and LR by class and way, for a study of automata."""
    means = table.groupby(["class", "way"], sort=False)[["exact", "SR", "LR"]].mean()
    return means.reset_index()


def _classes_chart(table: pd.DataFrame) -> ChartType:
    """The mean accuracy of each way by class of automata, on lines as long and on longer ones."""
    rows = by_class(table).melt(["class", "way"], ["SR", "LR"], "test", "right")
    rows["test"] = rows["test"].map({"SR": "lines as long", "LR": "longer lines"})
    ways = list(dict.fromkeys(rows["way"]))
    points = alt.Chart(rows).mark_point(filled=True, size=50, opacity=0.8)
    return points.encode(
        x=alt.X("right:Q", title="mean accuracy")
        .scale(domain=[0.4, 1], clamp=True)
        .axis(format="%"),
        y=alt.Y("class:N", title=None, sort=list(dict.fromkeys(rows["class"]))),
        yOffset=alt.YOffset("way:N", sort=ways),
        color=alt.Color("way:N", title=None, sort=ways),
        column=alt.Column("test:N", title=None, sort=["lines as long", "longer lines"]),
        tooltip=["class", "way", "test", alt.Tooltip("right:Q", format=".1%")],
    ).properties(width=230, height=alt.Step(11))


def recovery_chart(result: Answer) -> ChartType:
    """The exact share by family or by what the study varies, with its interval; a line per way."""
    if result.arguments["study"] == "automata":
        return _classes_chart(result.table)
    by = BY.get(result.arguments["study"], "family")
    ruled = result.table[result.table["family"] != "no rule"]  # there, nothing can come back
    table = shares(ruled, by)
    ways = list(dict.fromkeys(table["way"]))
    colour = alt.Color("way:N", title=None, sort=ways).legend(symbolOpacity=1)
    share = alt.Y("share:Q", title="recovered exactly").scale(domain=[0, 1]).axis(format="%")
    tooltip: list[str | alt.Tooltip] = [
        by,
        "way",
        "corpora",
        alt.Tooltip("share:Q", format=".0%"),
        *OUTCOMES,
    ]
    if by == "family":
        base = alt.Chart(table).encode(
            y=alt.Y("family:N", sort=list(dict.fromkeys(table["family"])), title=None),
            yOffset=alt.YOffset("way:N", sort=ways),
            color=colour,
            tooltip=tooltip,
        )
        across = alt.X("share:Q", title="recovered exactly").scale(domain=[0, 1]).axis(format="%")
        ranges = base.mark_rule().encode(x="low:Q", x2="high:Q")
        points = base.mark_point(filled=True, size=50, opacity=1).encode(x=across)
        return (ranges + points).properties(width=420, height=alt.Step(11))
    scale = alt.Scale(type="log" if by == "lines" else "linear", nice=False)
    titles = {"noise": "share of wrong labels", "disfluent": "share of disfluent symbols"}
    base = alt.Chart(table).encode(
        x=alt.X(f"{by}:Q", scale=scale, title=titles.get(by, by)), color=colour, tooltip=tooltip
    )
    band = base.mark_area(opacity=0.12).encode(
        y=alt.Y("low:Q").scale(domain=[0, 1]), y2="high:Q", color=colour
    )
    # Two ways may come back alike: a dashed line leaves the one below it to be seen.
    lines = base.mark_line(point=True).encode(
        y=share, strokeDash=alt.StrokeDash("way:N", sort=ways, legend=None)
    )
    return (band + lines).properties(width=420, height=260)
