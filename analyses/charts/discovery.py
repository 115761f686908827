"""Pictures of a discovery beside the automaton: how far it holds, and which heads carry it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import figures


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
