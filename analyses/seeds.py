"""One seed is an anecdote: the same question over all runs that differ in the seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from analyses.results import analysis, load
from interp.statistics import t_interval
from models.runs import Run, find_runs


def siblings(run: Run) -> list[Run]:
    """The runs beside this one with its configuration, up to the seed; itself among them."""
    config = replace(run.config, seed=0)
    runs = [Run(path) for path in find_runs(run.path.parent)]
    same = [other for other in runs if replace(other.config, seed=0) == config]
    return sorted(same, key=lambda other: other.config.seed)


def over_seeds(runs: Sequence[Run], name: str) -> tuple[pd.DataFrame, int]:
    """Means over the runs that were asked, of the numbers that the analysis calls its headline.

    Returns:
        One row per number: the columns of the analysis' ``headline`` but value, then mean, low and
        high (95%, Student's t over the runs) and seeds; and how many runs had a kept answer.
    """
    module = analysis(name)
    kept = [result for run in runs if (result := load(run, name))]
    if not kept:
        return pd.DataFrame(), 0
    rows = pd.concat([module.headline(result) for result in kept], ignore_index=True)
    labels = [column for column in rows.columns if column != "value"]
    table = []
    for key, values in rows.dropna(subset=["value"]).groupby(labels, sort=False)["value"]:
        mean, low, high = t_interval(values.to_numpy())
        table.append(
            dict(zip(labels, key, strict=True))
            | {"mean": mean, "low": low, "high": high, "seeds": len(values)}
        )
    return pd.DataFrame(table), len(kept)


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """For reading: a row per number, a column per variable, "mean [low, high]"."""

    def text(value: float) -> str:
        return f"{value:.0f}" if abs(value) >= 100 else f"{value:.2f}".replace("-0.00", "0.00")

    said = [
        text(row.mean_) + (f" [{text(row.low)}, {text(row.high)}]" if row.seeds > 1 else "")
        for row in table.rename(columns={"mean": "mean_"}).itertuples()
    ]
    grid = table.assign(said=said).pivot(index="of", columns="variable", values="said")
    order = {name: list(dict.fromkeys(table[name])) for name in ("of", "variable")}
    return grid.loc[order["of"], order["variable"]].fillna("")
