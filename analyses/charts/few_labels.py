"""Right verdicts by number of labelled lines, way and parent."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import SEVERAL, figures

SHORT = {
    "right": "right verdicts",
    "hard": "right verdicts, near misses",
    "forgotten": "forgotten (nats a token)",
}
"""The measures as an axis names them."""


def chart(table: pd.DataFrame, measure: str = "right") -> ChartType:
    """A panel per target; a line per way, dashed from an untrained parent.

    Args:
        table: as ``analyses.studies.few_labels.over_seeds`` gives it.
        measure: one of its measures.
    """
    rows = table.dropna(subset=[measure])
    ways, parents = (list(dict.fromkeys(rows[name])) for name in ("way", "parent"))
    columns = {measure: "value", f"{measure} low": "low", f"{measure} high": "high"}
    rows = rows[["target", "parent", "way", "lines", *columns]].rename(columns=columns)
    share = measure != "forgotten"
    axis = alt.Y("value:Q", title=SHORT[measure])
    base = alt.Chart(rows).encode(
        x=alt.X("lines:Q", title="labelled lines").scale(type="log", nice=False),
        color=alt.Color("way:N", title="what learns", sort=ways).scale(range=SEVERAL),
        strokeDash=alt.StrokeDash("parent:N", title="parent", sort=parents),
        tooltip=["target", "parent", "way", "lines", *figures("value", "low", "high")],
    )
    lines = base.mark_line(point=True).encode(
        y=axis.scale(domain=[0.4, 1]).axis(format="%") if share else axis
    )
    ranges = base.mark_rule(opacity=0.35, clip=True).encode(y="low:Q", y2="high:Q")
    return alt.hconcat(
        *(
            (ranges + lines)
            .transform_filter(alt.datum.target == target)
            .properties(width=230, height=260, title=str(target))
            for target in dict.fromkeys(rows["target"])
        )
    )
