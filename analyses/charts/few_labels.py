"""Right verdicts by number of labelled lines, way and parent."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import SEVERAL, figures


def chart(table: pd.DataFrame) -> ChartType:
    """A panel per target; a line per way, dashed from an untrained parent.

    Args:
        table: as ``analyses.studies.few_labels.over_seeds`` gives it.
    """
    ways = list(dict.fromkeys(table["way"]))
    parents = list(dict.fromkeys(table["parent"]))
    rows = table.rename(columns={"right low": "low", "right high": "high"})
    base = alt.Chart(rows).encode(
        x=alt.X("lines:Q", title="labelled lines").scale(type="log", nice=False),
        color=alt.Color("way:N", title="what learns", sort=ways).scale(range=list(SEVERAL)),
    )
    dash = alt.StrokeDash("parent:N", title="parent", sort=parents)
    tooltip = ["parent", "way", "lines", *figures("right", "low", "high")]
    lines = base.mark_line(point=True).encode(
        y=alt.Y("right:Q", title="right verdicts").scale(domain=[0.4, 1]).axis(format="%"),
        strokeDash=dash,
        tooltip=tooltip,
    )
    ranges = base.mark_rule(opacity=0.35).encode(y="low:Q", y2="high:Q", strokeDash=dash)
    panel = (ranges + lines).properties(width=250, height=260)
    return panel.facet(alt.Column("target:N", title=None))
