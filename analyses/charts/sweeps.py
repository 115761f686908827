"""The charts of a sweep: what is right by length, by bands of sizes, and by any two factors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.marks import heat
from analyses.charts.theme import QUIET, colours, figures, named
from interp.statistics import seeds_interval

POINTS = 24
"""The most points of a line: hundreds of lengths are averaged in so many groups of neighbours."""

LEGIBLE = 8
"""The most settings for which every seed and an interval are drawn; for more, only the means."""

ALONE = "all"
"""The name of the single setting of a sweep that varies nothing."""

LINES = 100
"""The most lines of single seeds in a panel."""

BRIGHT = 0.45
"""The share of the colour scale viridis from which on black text is easier to read than white."""

MEASURES = {
    "recognition": "verdicts right, members and others alike",
    "exact": "members with every next-symbol set right",
    "members": "members accepted",
    "others": "others rejected",
}


# -- by length ------------------------------------------------------------------------------------


def chart(result: Answer) -> ChartType:
    """The balanced recognition by length."""
    return length_chart(result.table, result.arguments["by"])


def length_chart(table: pd.DataFrame, by: Sequence[str], measure: str = "recognition") -> ChartType:
    """A panel per language: a thin line per seed, a thick one for their mean, the band its 95%
    interval; the colour is the setting, the dashed rule the end of a training window."""
    seeds = curves(table, by, measure)
    means = _bands(seeds)
    settings = list(dict.fromkeys(seeds["setting"]))
    few = len(settings) <= LEGIBLE
    thin = few and seeds.groupby(["setting", "seed"]).ngroups <= LINES
    names = dict.fromkeys(seeds["language"])
    panels = [
        _panel(
            seeds[seeds["language"] == name] if thin else None,
            means[means["language"] == name],
            settings,
            few,
            measure,
        ).properties(title=alt.Title(str(name), anchor="start"), width=260, height=180)
        for name in names
    ]
    return alt.concat(*panels, columns=min(3, len(panels)))


def _panel(
    seeds: pd.DataFrame | None,
    means: pd.DataFrame,
    settings: list[str],
    few: bool,
    measure: str,
) -> ChartType:
    """The panel of one language; without ``seeds`` no line of a single seed is drawn."""
    x = alt.X("length:Q", title="word length (symbols)").scale(nice=False, zero=False)
    share = alt.Scale(domain=[0, 1])
    y = alt.Y("right:Q", title=measure, scale=share).axis(format="%")
    look: dict[str, Any] = {"columns": 2, "labelLimit": 0, "symbolLimit": 0}
    colour = colours("setting", settings, shown=len(settings) > 1, **look)
    numbers = [alt.Tooltip(f"{c}:Q", format=".3f") for c in ("right", "low", "high")]
    base = alt.Chart(means).encode(x=x, color=colour)
    mean = base.mark_line(strokeWidth=2.5).encode(y=y)
    dots = base.mark_point(
        filled=True, size=60, opacity=0
    ).encode(  # larger to the mouse than a line
        y=y, tooltip=["setting:N", *figures("length", digits=1), *numbers, "seeds:Q"]
    )
    layers: list[alt.Chart] = []
    if few:
        layers.append(
            base.mark_area(opacity=0.14).encode(y=alt.Y("low:Q", scale=share), y2="high:Q")
        )
    if seeds is not None:
        lines = alt.Chart(seeds).mark_line(opacity=0.35, strokeWidth=1)
        layers.append(lines.encode(x=x, y=y, color=colour, detail="seed:N"))
    ends = means[["window"]].drop_duplicates()
    window = alt.Chart(ends).mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="window:Q")
    return alt.layer(*layers, mean, dots, window)


def curves(table: pd.DataFrame, by: Sequence[str], measure: str = "recognition") -> pd.DataFrame:
    """Columns: language, setting, seed, window, group (of neighbouring lengths), length (their
    mean), right (the measure's mean)."""
    rows = table[["language", "seed", "length", "window"]].assign(
        right=_measured(table, measure), setting=settings_of(table, by)
    )
    rows = rows.dropna(subset=["right"])
    spans = rows.groupby("language")["length"].agg(["min", "max"]).loc[rows["language"]]
    reach = (spans["max"] - spans["min"] + 1).to_numpy()
    group = (rows["length"].to_numpy() - spans["min"].to_numpy()) * POINTS // reach
    keys = ["language", "setting", "seed", "window", "group"]
    grouped = rows.assign(group=group).groupby(keys, sort=False)
    return grouped[["length", "right"]].mean().reset_index()


def _bands(seeds: pd.DataFrame) -> pd.DataFrame:
    """The curves' mean over seeds: language, setting, window, length, right, low, high (95%, by
    ``interval``; for a single seed both are missing), seeds."""
    records = []
    keys = ["language", "setting", "window", "group"]
    for key, rows in seeds.groupby(keys, sort=False):
        records.append(
            dict(zip(keys, key, strict=True))
            | {"length": rows["length"].mean()}
            | interval(rows["right"])
        )
    columns = [*keys[:3], "length", "right", "low", "high", "seeds"]
    return pd.DataFrame(records, columns=columns)


def interval(shares: Iterable[float], most: float = 1.0) -> dict[str, float]:
    """A summary of the seeds' numbers: right (their mean), low and high (95%, ``seeds_interval``,
    no less than 0 and no more than ``most``), seeds (how many)."""
    values = np.asarray(list(shares), dtype=np.float64)
    mean, low, high = seeds_interval(values, shares=most == 1 or None)
    ends = {"low": np.clip(low, 0, most), "high": np.clip(high, 0, most)}
    return {"right": mean} | {k: float(v) for k, v in ends.items()} | {"seeds": len(values)}


def _measured(table: pd.DataFrame, measure: str) -> pd.Series:
    """The measure of every row, NaN where it is not defined. Recognition is balanced: the mean of
    the shares of members and of others that are right, or the only one of the two that there is."""
    if measure == "recognition":
        return table[["members", "others"]].astype(float).mean(axis=1)
    return table[measure].astype(float)


def settings_of(table: pd.DataFrame, by: Sequence[str]) -> pd.Series:
    """The setting of each row's run, in words: "n_layers 1, rotary"."""
    if not by:
        return pd.Series(ALONE, index=table.index)
    parts = [
        table[key].map({value: setting(key, value) for value in table[key].unique()}) for key in by
    ]
    return parts[0].str.cat(parts[1:], sep=", ")


def setting(key: str, value: object) -> str:
    """A value of a varied field, with the field's name where the value alone says too little."""
    telling = isinstance(value, str) and value != "none"
    return str(value) if telling else f"{short(key)} {str(value).lower()}"


def short(key: str) -> str:
    """A field's name without its group: "n_layers" for "model.n_layers"."""
    return key.rpartition(".")[2]


# -- by windows -----------------------------------------------------------------------------------


def band_chart(values: pd.DataFrame) -> ChartType:
    """A panel per language: a row per setting, in it a bar per band and a tick per seed.

    Args:
        values: a row per language, setting, band (of sizes, by its last training window) and seed,
            with value, the share right.
    """
    shown = values[["language", "setting", "band", "seed", "value"]]
    base = alt.Chart(shown).encode(
        y=alt.Y("setting:N", sort=list(dict.fromkeys(shown["setting"])), title=None),
        yOffset=alt.YOffset("band:O"),
    )
    bars = base.mark_bar().encode(
        x=alt.X("mean(value):Q", title="share right").scale(domain=[0, 1]),
        color=alt.Color("band:O", title="up to ... windows").scale(scheme="viridis"),
        tooltip=["setting", "language", "band", alt.Tooltip("mean(value):Q", format=".3f")],
    )
    seeds = base.mark_tick(color=QUIET, thickness=1.5, size=6).encode(
        x="value:Q", tooltip=["setting", "language", "band", "seed", *figures("value")]
    )
    languages = list(dict.fromkeys(shown["language"]))
    return (
        (bars + seeds)
        .properties(width=200, height=alt.Step(9))
        .facet(column=alt.Column("language:N", title=None, sort=languages))
    )


# -- by two factors -------------------------------------------------------------------------------


def factors(table: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """The columns that a sweep can be tabulated by."""
    kinds = ["objective"] if table["objective"].nunique() > 1 else []
    return list(dict.fromkeys(["language", *by, "seed", *kinds]))


def cells(table: pd.DataFrame, row: str, column: str, measure: str = "recognition") -> pd.DataFrame:
    """The mean of a measure by two factors.

    It is taken over a run's lengths (members and others apart, as in the sweep's summary), then
    over a seed's runs, then over seeds. The interval is over seeds.

    Columns: those of ``row`` and ``column``, right (the mean), low, high (95%, by ``interval``;
    missing for a single seed), seeds, runs. A cell is left out if nothing is defined.
    """
    halves = ["members", "others"] if measure == "recognition" else [measure]
    keys = list(dict.fromkeys([row, column, "seed", "run"]))
    runs = table[halves].astype(float).groupby([table[key] for key in keys], sort=False).mean()
    right = runs.mean(axis=1).dropna().rename("right").reset_index()
    records = []
    for (of_row, of_column), part in right.groupby([row, column], sort=False):
        seeds = part.groupby("seed")["right"].mean()
        record = {row: of_row, column: of_column} | interval(seeds)
        records.append(record | {"runs": part["run"].nunique()})
    columns = [row, column, "right", "low", "high", "seeds", "runs"]
    return pd.DataFrame(records, columns=columns)


def two_factors(
    table: pd.DataFrame, row: str, column: str, measure: str = "recognition"
) -> ChartType:
    """A heatmap with the numbers of ``cells``: a factor down, another one across."""
    grid = cells(table, row, column, measure)
    down, across = (_ordered(grid[key]) for key in (row, column))
    shown = grid.assign(down=grid[row].astype(str), across=grid[column].astype(str))
    flat = max(map(len, across), default=0) <= 6
    return heat(
        shown[["down", "across", "right", "low", "high", "seeds", "runs"]],
        named(alt.X, "across", across, short(column), labelAngle=0 if flat else -40, labelLimit=0),
        named(alt.Y, "down", down, short(row), labelLimit=0),
        [
            alt.Tooltip("down:N", title=short(row)),
            alt.Tooltip("across:N", title=short(column)),
            *figures("right", "low", "high"),
            *("seeds:Q", "runs:Q"),
        ],
        alt.Color("right:Q", title=measure).scale(domain=[0, 1], scheme="viridis"),
        alt.Text("right:Q", format=".2f"),
        alt.condition(alt.datum.right > BRIGHT, alt.value("black"), alt.value("white")),
        edge=False,
    ).properties(width=max(60, 52 * len(across)), height=28 * len(down))


def _ordered(values: pd.Series) -> list[str]:
    """The values of an axis: numbers in ascending order, all others in the order of the rows."""
    distinct = list(dict.fromkeys(values))
    if all(isinstance(value, int | float) for value in distinct):
        distinct.sort()
    return [str(value) for value in distinct]
