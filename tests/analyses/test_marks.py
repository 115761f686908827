"""Channels as altair's own classes: the chart is the one that altair makes of plain values."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd
import pytest

from analyses.charts.marks import encoded

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
