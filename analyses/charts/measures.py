"""The further measures of a sweep: a number by setting, or along a varied number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from pandas.api.types import is_numeric_dtype

from analyses.charts.sweeps import settings_of, short
from analyses.charts.theme import colours, figures
from interp.statistics import seeds_interval

WIDE = 30
"""The ratio of the largest to the smallest number from which on an axis goes by powers of ten."""


def along(table: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The varied fields, and sizes of runs, that a number may be drawn along."""
    sizes = ["parameters", "loss.words", "loss.compute"]
    keys = [key for key in (*by, *sizes) if key in table and is_numeric_dtype(table[key])]
    return [
        key
        for key in keys
        if table[key].dtype != bool and table.groupby("language")[key].nunique().max() > 1
    ]


def _numbers(
    table: pd.DataFrame, by: Sequence[str], column: str, place: str | None = None
) -> pd.DataFrame:
    """A number of each run: language, setting (of all varied fields but ``place``), place, seed,
    value, which is missing for runs that do not have it. A place of words stays words."""
    runs = table.drop_duplicates("run")
    others = [key for key in by if key != place]
    rows = runs[["language", "seed"]].assign(
        setting=settings_of(runs, others), value=runs[column].astype(float)
    )
    if place is None:
        return rows
    places = runs[place]
    return rows.assign(place=places.astype(float) if is_numeric_dtype(places) else places)


def _middles(values: pd.DataFrame, censored: bool, shares: bool = False) -> pd.DataFrame:
    """One row per language, setting and place: value, low, high, seeds (that have the number).

    Args:
        values: a table of ``_numbers``.
        censored: whether a number is missing because it is too large to have been seen. The value
            is then the median over all seeds, without an interval; a setting where half of them
            have no number has no row. Otherwise it is the mean with its 95% interval.
        shares: whether the numbers are shares, see ``seeds_interval``.
    """
    keys = [key for key in ("language", "setting", "place") if key in values]
    rows = []
    for key, part in values.groupby(keys, sort=False):
        numbers = part["value"].dropna().to_numpy()
        if censored:
            middle = float(np.median(part["value"].fillna(np.inf)))
            ends = (middle, middle, middle) if np.isfinite(middle) else None
        else:
            ends = seeds_interval(numbers, shares=shares) if len(numbers) else None
        if ends is not None:
            about = dict(zip(("value", "low", "high"), ends, strict=True))
            rows.append(dict(zip(keys, key, strict=True)) | about | {"seeds": len(numbers)})
    return pd.DataFrame(rows, columns=[*keys, "value", "low", "high", "seeds"])


def side_by_side(charts: Mapping[str, ChartType]) -> ChartType:
    """``panels`` in one picture."""
    return alt.concat(*charts.values(), columns=min(3, len(charts)))


def panels(
    table: pd.DataFrame,
    by: Sequence[str],
    column: str,
    title: str,
    place: str | None = None,
    censored: bool = False,
    shares: bool = False,
) -> dict[str, ChartType]:
    """A panel per language: a point per seed, and the ``_middles`` over all seeds.

    Args:
        column: the number.
        title: the number in words.
        place: the field that goes along the horizontal axis; None puts the settings there.
        censored: see ``_middles``.
        shares: whether the number is a share: the axis goes from 0 to 1.
    """
    every = _numbers(table, by, column, place)
    means, values = _middles(every, censored, shares), every.dropna(subset=["value"])
    settings = list(dict.fromkeys(values["setting"]))
    if place is None:
        x = alt.X("setting:N", title=None, sort=settings)
    elif is_numeric_dtype(values["place"]):
        x = alt.X("place:Q", title=short(place))
        x = x.scale(type=_scale_of(values["place"]), nice=False, padding=8)
    else:
        x = alt.X("place:N", title=short(place), sort=None).axis(labelAngle=0)
    colour = colours("setting", settings, shown=place is not None and len(settings) > 1)
    y = alt.Y("value:Q", title=title).scale(type=_scale_of(values["value"]), zero=False)
    if shares:
        y = alt.Y("value:Q", title=title).scale(domain=[0, 1]).axis(format="%")
    charts: dict[str, ChartType] = {}
    for name in dict.fromkeys(values["language"]):
        seeds = alt.Chart(values[values["language"] == name]).encode(x=x, color=colour)
        mean = alt.Chart(means[means["language"] == name])
        mean = mean.encode(x=x, color=colour)
        points = seeds.mark_point(opacity=0.5, size=25).encode(
            y=y, tooltip=["setting", "seed", *figures("value")]
        )
        middle = mean.mark_line() if place else mean.mark_tick(thickness=2)
        middle = middle.encode(y=y, tooltip=["setting", *figures("value", "low", "high"), "seeds"])
        rules = mean.mark_rule().encode(y="low:Q", y2="high:Q")
        panel = (points + rules + middle).properties(width=260, height=200)
        charts[str(name)] = panel.properties(title=alt.Title(str(name), anchor="start"))
    return charts


def _scale_of(values: pd.Series) -> Literal["linear", "log"]:
    """The kind of axis on which these numbers can be told apart."""
    low, high = values.min(), values.max()
    return "log" if low > 0 and high >= WIDE * low else "linear"
