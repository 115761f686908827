"""Right verdicts by number of labelled lines, way and parent."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import DASHES, SEVERAL, figures

LOWEST = 0.4
"""Where the axis of right verdicts begins: a coin is right on half of them."""
SHORT = {
    "right": "right verdicts",
    "hard": "right verdicts, near misses",
    "forgotten": "forgotten (nats a token)",
}
"""The measures as an axis names them."""


def chart(table: pd.DataFrame, measure: str = "right") -> ChartType:
    """A line per way, dashed from an untrained parent; of several targets a panel for each.

    Args:
        table: as ``analyses.studies.few_labels.over_seeds`` gives it.
        measure: one of its measures.
    """
    rows = table.dropna(subset=[measure])
    ways, parents = (list(dict.fromkeys(rows[name])) for name in ("way", "parent"))
    columns = {measure: "value", f"{measure} low": "low", f"{measure} high": "high"}
    rows = rows[["target", "parent", "way", "lines", *columns]].rename(columns=columns)
    y = alt.Y("value:Q", title=SHORT[measure])
    if measure != "forgotten":
        y = y.scale(domain=[LOWEST, 1], clamp=True).axis(format="%")
    base = alt.Chart(rows).encode(
        x=alt.X("lines:Q", title="labelled lines")
        .scale(type="log", nice=False)
        .axis(values=sorted(set(rows["lines"]))),
        y=y,
        color=alt.Color("way:N", title="what learns", sort=ways)
        .scale(range=SEVERAL)
        .legend(symbolOpacity=1),
        strokeDash=alt.StrokeDash("parent:N", title="parent", sort=parents, legend=DASHES),
        tooltip=["target", "parent", "way", "lines", *figures("value", "low", "high")],
    )
    lines = base.mark_line(point=True)
    ranges = base.mark_rule(opacity=0.35).encode(y=alt.Y("low:Q"), y2="high:Q")
    panels = [
        (lines + ranges)
        .transform_filter(alt.datum.target == target)
        .properties(width=300, height=280, title=str(target))
        for target in dict.fromkeys(rows["target"])
    ]
    return panels[0] if len(panels) == 1 else alt.hconcat(*panels)
