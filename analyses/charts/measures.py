"""The further measures of a sweep: a number by setting, or along a varied number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import altair as alt
import pandas as pd
from altair.typing import ChartType
from pandas.api.types import is_numeric_dtype

from analyses.charts.sweeps import settings_of, short
from analyses.charts.theme import SEVERAL, figures
from interp.statistics import seeds_interval

WIDE = 30
"""From this ratio of the largest to the smallest number on, an axis goes by powers of ten."""


def along(table: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The varied fields, and sizes of runs, that a number may be drawn along."""
    sizes = ["parameters", "loss.words", "loss.compute"]
    keys = [key for key in (*by, *sizes) if key in table and is_numeric_dtype(table[key])]
    return [
        key
        for key in keys
        if table[key].dtype != bool and table.groupby("language")[key].nunique().max() > 1
    ]


def numbers(
    table: pd.DataFrame, by: Sequence[str], column: str, place: str | None = None
) -> pd.DataFrame:
    """A number of each run: language, setting (of all varied fields but ``place``), place, seed,
    value. Runs that do not have it are left out."""
    runs = table.drop_duplicates("run").dropna(subset=[column])
    others = [key for key in by if key != place]
    kept = runs[["language", "seed"]].assign(
        setting=settings_of(runs, others), value=runs[column].astype(float)
    )
    return kept if place is None else kept.assign(place=runs[place].astype(float))


def chart(
    table: pd.DataFrame, by: Sequence[str], column: str, title: str, place: str | None = None
) -> ChartType:
    """A panel per language: a point per seed, and the mean over seeds with its 95% interval.

    Args:
        column: the number.
        title: what it is, in words.
        place: the field that goes along the horizontal axis; None puts the settings there.
    """
    values = numbers(table, by, column, place)
    keys = ["language", "setting", *([] if place is None else ["place"])]
    means = []
    for key, part in values.groupby(keys, sort=False):
        ends = zip(
            ("value", "low", "high"),
            seeds_interval(part["value"].to_numpy(), shares=False),
            strict=True,
        )
        means.append(dict(zip(keys, key, strict=True)) | dict(ends) | {"seeds": len(part)})
    settings = list(dict.fromkeys(values["setting"]))
    x = (
        alt.X("setting:N", title=None, sort=settings)
        if place is None
        else alt.X("place:Q", title=short(place)).scale(type=scale_of(values["place"]))
    )
    colours = {"range": SEVERAL} if len(settings) <= len(SEVERAL) else {"scheme": "turbo"}
    colour = alt.Color("setting:N", title=None, sort=settings).scale(domain=settings, **colours)
    colour = colour.legend(
        None if place is None or len(settings) == 1 else alt.Legend(orient="top")
    )
    y = alt.Y("value:Q", title=title).scale(type=scale_of(values["value"]), zero=False)
    panels = []
    for name in dict.fromkeys(values["language"]):
        seeds = alt.Chart(values[values["language"] == name]).encode(x=x, color=colour)
        mean = alt.Chart(pd.DataFrame([row for row in means if row["language"] == name]))
        mean = mean.encode(x=x, color=colour)
        points = seeds.mark_point(opacity=0.5, size=25).encode(
            y=y, tooltip=["setting", "seed", *figures("value")]
        )
        middle = mean.mark_line() if place else mean.mark_tick(thickness=2)
        middle = middle.encode(y=y, tooltip=["setting", *figures("value", "low", "high"), "seeds"])
        rules = mean.mark_rule().encode(y="low:Q", y2="high:Q")
        panel = (points + rules + middle).properties(width=260, height=200)
        panels.append(panel.properties(title=alt.Title(str(name), anchor="start")))
    return alt.concat(*panels, columns=min(3, len(panels)))


def scale_of(values: pd.Series) -> Literal["linear", "log"]:
    """The kind of axis on which these numbers can be told apart."""
    low, high = values.min(), values.max()
    return "log" if low > 0 and high >= WIDE * low else "linear"
