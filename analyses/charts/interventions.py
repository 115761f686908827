"""Pictures of what the model does when a hidden variable is erased, moved or exchanged."""

from __future__ import annotations

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import points
from analyses.charts.theme import AGAINST, FOR, QUIET, TRAINED, UNTRAINED, colours, figures

COLOURS = {
    "none": "#9aa5ab",
    "LEACE": TRAINED,
    "random directions": "#e0b060",
    "random readout": AGAINST,
    "added": TRAINED,
    "added in proportion": FOR,
    "random direction": "#e0b060",
    "random direction in proportion": AGAINST,
    "state of another word": UNTRAINED,
    "state means": TRAINED,
    "random direction, as far": AGAINST,
    "DAS": TRAINED,
    "DAS, untrained model": "#8e6bb0",
    "DAS, arbitrary targets": FOR,
    "random subspace": AGAINST,
    "whole activation": "#5c676d",
    "arbitrary classes": AGAINST,
    "same variable": TRAINED,
    "same position": "#e0b060",
    "same next symbols": FOR,
}

WIDE = 560
"""Pixels that the panels of a row share."""


def charts(result: Answer) -> dict[str, ChartType]:
    """A picture for each experiment that there is; one more for states that were put in."""
    table = result.table
    state = (table["split"] == "score") & (table["model"] == "trained")
    rows = {  # in the order of the claims
        "interchange": table[table["experiment"] == "interchange"],
        "steering": table[(table["experiment"] == "steering") & (table["split"] == "all")],
        "states": table[(table["experiment"] == "steering") & state],
        "erasure": table[(table["experiment"] == "erasure") & (table["model"] == "trained")],
        "scrubbing": table[table["measure"] == "loss recovered"],
    }
    draw = {
        "erasure": _erasure_chart,
        "steering": _steering_chart,
        "states": lambda table: _points(table, "the wanted next symbols", "put in"),
        "interchange": _pairs_chart,
        "scrubbing": _scrubbing_chart,
    }
    return {name: draw[name](some) for name, some in rows.items() if len(some)}


def chart(result: Answer) -> ChartType:
    """The pictures of all experiments, one below the other."""
    return alt.vconcat(*charts(result).values()).resolve_scale(
        color="independent", x="independent", y="independent", yOffset="independent"
    )


def _colour(rows: pd.DataFrame, title: str) -> alt.Color:
    names = [name for name in COLOURS if name in set(rows["method"])]
    shown = [COLOURS[name] for name in names]
    return colours("method", names, shown, title, columns=2, labelLimit=220)


def _points(rows: pd.DataFrame, title: str, legend: str, panels: int = 1) -> alt.LayerChart:
    """A point per site and method, with its interval."""
    return points(
        rows,
        alt.X("value:Q", title=title)
        .scale(domain=[0, 1], clamp=True)
        .axis(format="%", tickCount=2),
        alt.Y("site:N", sort=list(dict.fromkeys(rows["site"])), title=None),
        ["model", "site", "variable", "method", "amount:Q", *figures("value", "low", "high")],
        _colour(rows, legend),
        step=12,
        yOffset=alt.YOffset("method:N", sort=list(COLOURS)),
    ).properties(width=max(200, WIDE // min(panels, 3)))


def _erasure_chart(table: pd.DataFrame) -> ChartType:
    rows = table[table["measure"] == "words right"]
    order = list(dict.fromkeys(rows["variable"]))
    return _points(rows, "words right", "erased", len(order)).facet(
        facet=alt.Facet("variable:N", sort=order, title=None), columns=3, spacing=32
    )


def _steering_chart(table: pd.DataFrame) -> ChartType:
    """The shift of the end by k, a panel per site. Pale points: few words ended."""
    rows = table[(table["measure"] == "shift") & table["value"].notna()]
    rows = rows.assign(ended=rows["words"] / rows["words"].max())
    other = rows["method"] == "state of another word"
    rows = pd.concat([rows[other], rows[~other].iloc[::-1]])  # what is drawn last lies above
    base = alt.Chart(rows).encode(x=alt.X("amount:Q", title="k").axis(tickMinStep=1))
    shifts = base.encode(
        y=alt.Y("value:Q", title="the end comes later by (symbols)"),
        color=_colour(rows, "added at the last block"),
        tooltip=[
            *("site", "method", "amount:Q"),
            *figures("value", "low", "high", "ended", digits=2),
        ],
    )
    points = shifts.mark_point(filled=True).encode(
        opacity=alt.Opacity("ended:Q").scale(domain=[0, 1], range=[0.1, 1]).legend(None),
        size=alt.condition(
            alt.datum.method == "state of another word", alt.value(140), alt.value(40)
        ),
    )
    exactly = base.mark_line(strokeDash=[3, 3], color=QUIET, strokeWidth=1).encode(y="amount:Q")
    return (
        (exactly + shifts.mark_line(strokeWidth=1.2, opacity=0.6) + points)
        .properties(width=170, height=150)
        .facet(
            facet=alt.Facet("site:N", sort=list(dict.fromkeys(table["site"])), title=None),
            columns=3,
        )
    )


def _pairs_chart(table: pd.DataFrame) -> ChartType:
    """Every method at every site, with the rank that was chosen there; a panel per measure."""
    table = table.copy()
    table.loc[table["model"] == "untrained", "method"] = "DAS, untrained model"
    key = ["variable", "measure", "method", "site"]
    choose = table[table["split"] == "choose"].sort_values("amount", kind="stable")
    best = choose.loc[choose.groupby(key)["value"].idxmax(), [*key, "amount"]]
    rows = table[table["split"] == "score"].merge(best)
    rows["panel"] = rows["variable"] + ": " + rows["measure"]
    panels = list(dict.fromkeys(table["variable"] + ": " + table["measure"]))
    rows = rows.sort_values("site", key=lambda column: column.map(list(table["site"]).index))
    return _points(rows, "all answers as predicted", "exchanged", len(panels)).facet(
        facet=alt.Facet("panel:N", sort=panels, title=None), columns=2, spacing=32
    )


def _scrubbing_chart(table: pd.DataFrame) -> ChartType:
    """The variable has its own colour, whatever it is called."""
    rows = table[(table["method"] != "any prefix") & table["value"].notna()].copy()
    coloured = rows["method"].isin(list(COLOURS))
    rows["method"] = rows["method"].where(coloured, "same variable")
    return _points(rows, "loss recovered", "taken from a prefix with")
