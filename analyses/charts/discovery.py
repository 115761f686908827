"""Pictures of discoveries, beside the automaton: how far a rule holds, which heads carry it, and
how often planted rules come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import curve, heat, points, white_where
from analyses.charts.theme import colours, figures, share
from interp.statistics import wilson

BY = {"lines": "lines", "noise": "noise", "disfluent": "disfluent"}
"""The column by which the outcomes of a study of planted rules are shown; the family, where none
is named."""
OUTCOMES = ("exact", "no reliable rule", "wrong rule")


def length_chart(findings: Mapping[str, Any]) -> ChartType:
    """Accuracy of the rule and of the network on held-out lines, by their length."""
    rows = [
        {"length": row["length"], "lines": row["count"], "who": who, "right": row[who]}
        for row in findings["by_length"]
        for who in ("rule", "network")
    ]
    return curve(
        pd.DataFrame(rows),
        alt.X("length:Q", title="symbols in the line").axis(tickMinStep=1),
        share(alt.Y, "right", "held-out lines right"),
        ["length", "lines", "who", alt.Tooltip("right:Q", format=".1%")],
        colours("who", ["rule", "network"], orient="right"),
        ends=None,
    ).properties(width=420, height=180)


def heads_chart(findings: Mapping[str, Any]) -> ChartType:
    """Logits that each head carries of each transition, with the control in the last row."""
    table = pd.DataFrame(findings["heads"])
    table["head"] = [f"L{row.layer}H{row.head}" for row in table.itertuples()]
    table["transition"] = [
        "control: none" if row.source < 0 else f"{row.source} → {row.target}"
        for row in table.itertuples()
    ]
    order = [t for t in dict.fromkeys(table["transition"]) if t[0] != "c"] + ["control: none"]
    largest = float(table["moved"].abs().max()) or 1.0
    scale = alt.Scale(scheme="purpleorange", domain=[-largest, largest], domainMid=0)
    numbers = figures("moved", "low", "high", "whole", digits=2)
    return heat(
        table,
        alt.X("head:N", title=None).axis(labelAngle=0),
        alt.Y("transition:N", title="the automaton moves", sort=order),
        ["transition", "head", "pairs", *numbers],
        alt.Color("moved:Q", title="logit moved", scale=scale),
        alt.Text("moved:Q", format=".1f"),
        white_where(f"abs(datum.moved) > {0.6 * largest}"),
    ).properties(width=alt.Step(52), height=alt.Step(26))


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
    tests = {"SR": "lines as long", "LR": "longer lines"}
    rows = by_class(table).melt(["class", "way"], list(tests), "test", "right")
    rows["test"] = rows["test"].map(tests)
    ways = list(dict.fromkeys(rows["way"]))
    across = alt.X("right:Q", title="mean accuracy").scale(domain=[0.4, 1], clamp=True)
    picture = points(
        rows,
        across.axis(format="%"),
        alt.Y("class:N", title=None, sort=list(dict.fromkeys(rows["class"]))),
        ["class", "way", "test", alt.Tooltip("right:Q", format=".1%")],
        colours("way", ways, orient="right"),
        ends=None,
        step=11,
        yOffset=alt.YOffset("way:N", sort=ways),
    )
    by = alt.Column("test:N", title=None, sort=list(tests.values()))
    return picture.properties(width=230).facet(column=by)


def recovery_chart(result: Answer) -> ChartType:
    """The exact share by family or by what the study varies, with its interval; a line per way."""
    if result.arguments["study"] == "automata":
        return _classes_chart(result.table)
    by = BY.get(result.arguments["study"], "family")
    ruled = result.table[result.table["family"] != "no rule"]  # there, nothing can come back
    table = shares(ruled, by)
    ways, title = list(dict.fromkeys(table["way"])), "recovered exactly"
    color = colours("way", ways, orient="right", symbolOpacity=1)
    tips = [by, "way", "corpora", alt.Tooltip("share:Q", format=".0%"), *OUTCOMES]
    if by == "family":
        families, apart = list(dict.fromkeys(table["family"])), alt.YOffset("way:N", sort=ways)
        y = alt.Y("family:N", sort=families, title=None)
        across = share(alt.X, "share", title)
        return points(table, across, y, tips, color, step=11, yOffset=apart).properties(width=420)
    titles = {"noise": "share of wrong labels", "disfluent": "share of disfluent symbols"}
    x = alt.X(f"{by}:Q", title=titles.get(by, by))
    x = x.scale(type="log" if by == "lines" else "linear", nice=False)
    # Two ways may come back alike: a dashed line leaves the one below it to be seen.
    dash = alt.StrokeDash("way:N", sort=ways, legend=None)
    picture = curve(table, x, share(alt.Y, "share", title), tips, color, band=True, strokeDash=dash)
    return picture.properties(width=420, height=260)
