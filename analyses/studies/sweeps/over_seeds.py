"""The further measures of a sweep, summed up over the seeds of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses.charts.sweeps import short
from analyses.claims import interval_text
from analyses.studies.sweeps.further import FURTHER, Name, columns_of, is_share, name_of
from interp.statistics import seeds_interval

LEGEND = (
    "Mean over seeds [95% interval]. Where a seed may need longer than it was trained, the median "
    "over all seeds, and how many of them have a number at all. A training that diverged has none."
)


def over_seeds(
    table: pd.DataFrame, by: Sequence[str], names: Sequence[Name], diverged: pd.DataFrame
) -> pd.DataFrame:
    """One row per language, setting and number.

    Args:
        table: the table of ``sweep``.
        by: the columns that make a setting.
        names: the names of the measures.
        diverged: a row per run that diverged: language, seed, and the columns of ``by``.

    Columns: language, those of ``by``, number ("loss.excess"), mean, low, high (95%,
    ``seeds_interval`` over the seeds that have the number; missing where it may be censored),
    median (there alone: over all seeds, where a missing number is larger than any other; missing
    where half of them have none), seen (seeds that have it), seeds (those that did not diverge),
    diverged.
    """
    keys = ["language", *by]
    runs = table.drop_duplicates("run").assign(diverged=False)
    if len(diverged):
        runs = pd.concat([runs, diverged.assign(diverged=True)], ignore_index=True)
    records = []
    for values, part in runs.groupby(keys, sort=False):
        setting = dict(zip(keys, values, strict=True))
        ended = part[~part["diverged"]]
        for column in columns_of(names):
            seen = ended[column].dropna().to_numpy(dtype=float)
            numbers: dict[str, Any] = dict.fromkeys(("mean", "low", "high", "median"), np.nan)
            if FURTHER[name_of(column)].censored:
                middle = np.median(ended[column].fillna(np.inf)) if len(ended) else np.nan
                numbers["median"] = middle if np.isfinite(middle) else np.nan
            elif len(seen):
                numbers |= zip(
                    ("mean", "low", "high"),
                    seeds_interval(seen, shares=is_share(column)),
                    strict=True,
                )
            counts = {"seen": len(seen), "seeds": len(ended)}
            counts["diverged"] = int(part["diverged"].sum())
            records.append(setting | {"number": column} | numbers | counts)
    return pd.DataFrame(records)


def wide(rows: pd.DataFrame, by: Sequence[str]) -> dict[Name, pd.DataFrame]:
    """Tables for reading, by measure: a row per language and setting, a column per number.

    Args:
        rows: the table of ``over_seeds``.
    """
    tables = {}
    keys = ["language", *by]
    of = rows["number"].map(name_of)
    for name in dict.fromkeys(of):
        part = rows[of == name]
        texts = part.assign(
            text=[_in_words(row, FURTHER[name].censored) for row in part.to_dict("records")],
            number=part["number"].str.partition(".")[2],
        )
        shown = texts.drop_duplicates(keys)[keys].merge(
            texts.pivot(index=keys, columns="number", values="text").reset_index(), on=keys
        )
        shown = shown[[*keys, *FURTHER[name].meaning]].rename(columns=short)
        first = part.drop_duplicates(keys)
        shown["seeds"] = first["seeds"].to_numpy()
        if part["diverged"].any():
            shown["diverged"] = first["diverged"].to_numpy()
        tables[name] = shown
    return tables


def _in_words(row: dict[str, Any], censored: bool) -> str:
    """A number of a setting: "0.12 [0.1, 0.14]", or "400 (4 of 5 seeds)"."""
    if censored:
        middle = "-" if np.isnan(row["median"]) else f"{row['median']:g}"
        return f"{middle} ({row['seen']} of {row['seeds']})"
    return interval_text(row["mean"], row["low"], row["high"], ".3g")
