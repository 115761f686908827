"""Accuracy by word length, and the curves of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.theme import CHOSEN, QUIET, SEVERAL, TRAINED, figures


def chart(result: Answer) -> ChartType:
    """Curves by length; a dashed line marks the end of the training window."""
    long = result.table.melt(
        ["model", "length", "n", "low", "high"], ["exact", "recognition"], "measure"
    )
    long["value"] = pd.to_numeric(long["value"])
    long["curve"] = long["measure"] + ", " + long["model"]
    base = alt.Chart(long.dropna(subset=["value"]))
    x = alt.X("length:Q", title="word length (symbols)").scale(nice=False)
    colour = (
        alt.Color("curve:N", title=None)
        .scale(
            domain=[
                "exact, trained",
                "recognition, trained",
                "exact, untrained",
                "recognition, untrained",
            ],
            range=[TRAINED, CHOSEN, "#9db8c4", "#e8cdb9"],
        )
        .legend(orient="top", columns=2)
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=14)).encode(
        x=x,
        y=alt.Y("value:Q", title="share of words").scale(domain=[0, 1]),
        color=colour,
        tooltip=["curve", "length", "n", *figures("value")],
    )
    band = (
        base.transform_filter((alt.datum.measure == "recognition") & (alt.datum.model == "trained"))
        .mark_area(opacity=0.18, color=CHOSEN)
        .encode(x=x, y="low:Q", y2="high:Q")
    )
    trained = result.table[result.table["model"] == "trained"]
    inside = trained[trained["n"].fillna(trained["length"]) <= result.findings["window"]]
    edge = float(inside["length"].max()) if len(inside) else 0.0
    window = alt.Chart(pd.DataFrame({"edge": [edge], "label": ["training window"]}))
    rule = window.mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="edge:Q")
    right_of = edge < trained["length"].max() / 2  # on the side that has room
    side: dict[str, Any] = {"align": "left", "dx": 5} if right_of else {"align": "right", "dx": -5}
    label = window.mark_text(**side, y=10, fontSize=12).encode(x="edge:Q", text="label:N")
    return (band + lines + rule + label).properties(width=560, height=260)


def training_charts(metrics: Sequence[Mapping[str, Any]]) -> tuple[ChartType, ChartType]:
    """Loss, and the shares on the training window, over the steps: two pictures, which stand side
    by side where there is room."""
    table = pd.DataFrame(metrics)
    x = alt.X("step:Q", title="training step")
    loss = (
        alt.Chart(table.melt("step", ["loss", "validation_loss"], "curve"))
        .mark_line()
        .encode(
            x=x,
            y=alt.Y("value:Q", title="loss (nats)").scale(type="log"),
            color=alt.Color("curve:N", title=None).scale(range=SEVERAL).legend(orient="top"),
            tooltip=["curve", "step", alt.Tooltip("value:Q", format=".2e")],
        )
        .properties(width=320, height=170)
    )
    share = (
        alt.Chart(table.melt("step", ["exact", "recognition"], "curve"))
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("value:Q", title="share, training window").scale(domain=[0, 1]),
            color=alt.Color("curve:N", title=None).scale(range=SEVERAL).legend(orient="top"),
            tooltip=["curve", "step", *figures("value")],
        )
        .properties(width=320, height=170)
    )
    return loss, share
