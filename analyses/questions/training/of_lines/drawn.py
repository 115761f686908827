"""The answer about influence in words and as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import QUIET, TRAINED, UNTRAINED, figures
from interp.statistics import brackets

MODELS = {"trained": TRAINED, "untrained": UNTRAINED}


def side_by_side(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By part, a row per model and method, and a column for each measure."""
    shown = table.assign(shown=[_shown(*row) for row in table[["value", "low", "high"]].to_numpy()])
    keys, parts = ["model", "method"], {}
    for part, own in shown.groupby("part", sort=False):
        wide = own.pivot(index=keys, columns="measure", values="shown")
        order = own[keys].drop_duplicates()
        parts[str(part)] = order.merge(wide.reset_index(), on=keys).fillna("-")
    return parts


def _shown(value: float, low: float, high: float) -> str:
    if value != value:
        return "-"
    return f"{value:.2f}{brackets(low, high, '.2f')}"


def in_words(table: pd.DataFrame, name: str, findings: Mapping[str, int]) -> str:
    """The methods at the end of training, beside their controls."""
    parts = []
    for (part, measure), own in table.groupby(["part", "measure"], sort=False):
        told = [
            f"{_named(row.model, row.method)} {_shown(row.value, row.low, row.high)}"
            for row in own[own["model"] != "untrained"].itertuples()
        ]
        parts.append(f"{part}, {measure}: {', '.join(told)}.")
    return (
        f"{name}, {findings['lines']} lines. {' '.join(parts)} LDS: mean over {findings['words']} "
        f"words, with a 95% bootstrap interval over {findings['trainings']} trainings on half of "
        "the lines. No difference was tested."
    )


def _named(model: str, method: str) -> str:
    return method if model != "untrained" else f"{method} of the untrained"


def chart(table: pd.DataFrame, columns: int = 2) -> ChartType:
    """A panel for each part and measure, so many side by side."""
    panels = []
    order = table["method"].unique().tolist()
    for (part, measure), own in table.groupby(["part", "measure"], sort=False):
        own = own.assign(kind=own["model"].where(own["model"].isin(list(MODELS)), "control"))
        base = alt.Chart(own).encode(
            y=alt.Y("method:N", sort=order, title=None).axis(labelLimit=220),
            color=alt.Color("kind:N", title=None)
            .scale(domain=[*MODELS, "control"], range=[*MODELS.values(), QUIET])
            .legend(orient="top"),
            tooltip=["method", "model", *figures("value", "low", "high")],
        )
        span = base.mark_rule().encode(x=alt.X("low:Q", title=None), x2="high:Q")
        points = base.mark_point(filled=True, size=60, opacity=1)
        title = part if measure == "LDS" else f"{part}: {measure}"
        panels.append(
            alt.layer(span, points.encode(x=alt.X("value:Q", title=None))).properties(
                title=f"{title}, LDS" if measure == "LDS" else title,
                width=240,
                height=alt.Step(18),
            )
        )
    return alt.concat(*panels, columns=columns).resolve_scale(x="independent")
