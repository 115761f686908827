"""Channels as altair's own classes: the chart is the one that altair makes of plain values."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import pytest

from analyses.charts.marks import encoded, heat, in_a_row

WHITE = alt.condition("datum.a > 1", alt.value("white"), alt.value("black"))
CHANNELS: list[dict[str, Any]] = [
    {"x": "a:Q", "y": alt.Y("b:N", title=None)},
    {"x": "a:Q", "x2": "b:Q", "opacity": alt.value(0.5)},
    {"tooltip": ["a", alt.Tooltip("b:Q", format=".2f")], "detail": ["a:N", "b:N"]},
    {"color": alt.value("#777"), "text": "a:N"},
    {"color": WHITE, "x": alt.value(3)},
]


@pytest.mark.parametrize("channels", CHANNELS)
def test_the_chart_is_that_of_plain_values(channels: dict[str, Any]) -> None:
    chart = alt.Chart(pd.DataFrame({"a": [1], "b": [2]})).mark_point()
    assert encoded(chart, **channels).to_dict() == chart.encode(**channels).to_dict()


def test_charts_in_a_row_take_no_clicks_and_lose_nothing() -> None:
    rows = [pd.DataFrame({"a": ["x", "y"], "v": [float(i), 1.0]}) for i in range(2)]
    color = alt.Color("v:Q")
    charts = [heat(table, alt.X("a:N"), alt.Y("a:N"), ["a"], color, click="a") for table in rows]
    drawn: Any = in_a_row(charts).to_dict()
    assert "params" not in drawn
    assert [list(drawn["datasets"].values())] == [[table.to_dict("records") for table in rows]]
    assert "params" in charts[0].to_dict()  # what a page shows is as it was
