"""Accuracy by word length, and the curves of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import curve
from analyses.charts.theme import CHOSEN, QUIET, TRAINED, colours, figures

MEASURES = ["exact", "recognition"]


def chart(result: Answer) -> ChartType:
    """Curves by length; a dashed line marks the end of the training window."""
    long = result.table.melt(
        ["model", "length", "n", "low", "high"], ["exact", "recognition"], "measure"
    )
    long["value"] = pd.to_numeric(long["value"])
    long["curve"] = long["measure"] + ", " + long["model"]
    long.loc[long["curve"] != "recognition, trained", ["low", "high"]] = np.nan
    names = [f"{measure}, {model}" for model in ("trained", "untrained") for measure in MEASURES]
    lines = curve(
        long.dropna(subset=["value"]),
        alt.X("length:Q", title="word length (symbols)").scale(nice=False),
        alt.Y("value:Q", title="share of words").scale(domain=[0, 1]),
        ["curve", "length", "n", *figures("value")],
        colours("curve", names, [TRAINED, CHOSEN, "#9db8c4", "#e8cdb9"], columns=2),
        band=True,
        size=14,
    )
    trained = result.table[result.table["model"] == "trained"]
    inside = trained[trained["n"].fillna(trained["length"]) <= result.findings["window"]]
    edge = float(inside["length"].max()) if len(inside) else 0.0
    window = alt.Chart(pd.DataFrame({"edge": [edge], "label": ["training window"]}))
    rule = window.mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="edge:Q")
    right_of = edge < trained["length"].max() / 2  # on the side that has room
    side: dict[str, Any] = {"align": "left", "dx": 5} if right_of else {"align": "right", "dx": -5}
    label = window.mark_text(**side, y=10, fontSize=12).encode(x="edge:Q", text="label:N")
    return (lines + rule + label).properties(width=560, height=260)


def training_charts(metrics: Sequence[Mapping[str, Any]]) -> tuple[ChartType, ChartType]:
    """Loss, and the shares on the training window, over the steps: two pictures, which stand side
    by side where there is room."""
    table = pd.DataFrame(metrics).rename(columns={"validation_loss": "loss, held out"})

    def drawn(names: Sequence[str], y: alt.Y, digits: str, size: int) -> ChartType:
        tips = ["curve", "step", alt.Tooltip("value:Q", format=digits)]
        rows, x = table.melt("step", names, "curve"), alt.X("step:Q", title="training step")
        rows = rows[rows["value"].notna()]
        colour = colours("curve", [name for name in names if name in set(rows["curve"])])
        return curve(rows, x, y, tips, colour, None, size=size).properties(width=320, height=170)

    loss = alt.Y("value:Q", title="loss (nats)").scale(type="log")
    right = alt.Y("value:Q", title="share, training window").scale(domain=[0, 1])
    return drawn(["loss", "loss, held out"], loss, ".2e", 0), drawn(MEASURES, right, ".3f", 30)
