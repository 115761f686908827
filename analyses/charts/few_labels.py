"""Right verdicts by number of labelled lines, way and parent."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import curve, panels
from analyses.charts.theme import DASHES, colours, figures

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
    x = alt.X("lines:Q", title="labelled lines").scale(type="log", nice=False)
    y = alt.Y("value:Q", title=SHORT[measure])
    if measure != "forgotten":
        y = y.scale(domain=[LOWEST, 1], clamp=True).axis(format="%")
    x = x.axis(values=sorted(set(rows["lines"])))
    tips = ["target", "parent", "way", "lines", *figures("value", "low", "high")]
    color = colours("way", ways, title="what learns", orient="right", symbolOpacity=1)
    dash = alt.StrokeDash("parent:N", title="parent", sort=parents, legend=DASHES)
    return panels(
        (
            str(target),
            curve(own, x, y, tips, color, strokeDash=dash).properties(width=300, height=280),
        )
        for target, own in rows.groupby("target", sort=False)
    )
