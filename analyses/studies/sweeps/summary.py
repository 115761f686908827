"""The outcome of a sweep: a row per language and setting, and a sentence per language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analyses.answers import plain
from analyses.charts.sweeps import ALONE
from analyses.questions.behaviour.accuracy import exact_to
from analyses.studies.sweeps import bands, capacity, paired
from analyses.studies.sweeps.further import Name
from analyses.studies.sweeps.measures import WORDS, Measure, balanced_shares, by_seed, grids
from analyses.studies.sweeps.over_seeds import over_seeds
from interp.statistics import nested_bootstrap

LEGEND = (
    "The share of words recognised, in which members and others weigh alike. Best: the best seed. "
    "Mean: over seeds, with its 95% interval (bootstrapped over seeds and lengths). Perfect: seeds "
    "without a mistake. Exact to: the size up to which every size tested is exact, worst to best "
    "seed."
)
"""The meaning of the columns of ``readable``."""


def summary(
    table: pd.DataFrame, by: Sequence[str], diverged: pd.DataFrame | None = None
) -> pd.DataFrame:
    """One row per language and setting.

    Args:
        by: the columns that make a setting: variant and the varied fields.
        diverged: a row per run that diverged: language, seed, and the columns of ``by``.

    Columns: language, those of ``by``, best, mean, low, high (of the seeds' balanced recognition:
    the mean of the members' mean over lengths and of the others'; 95%, bootstrapped over seeds and
    over the lengths of each, NaN for a single seed), seeds, perfect (seeds without a mistake),
    exact_to_min and exact_to_max (the size up to which all sizes tested are exact, at the worst and
    the best seed; missing where a run was taught verdicts alone), diverged (how many more seeds'
    trainings diverged; a setting of which all did has no shares).
    """
    keys, records = ["language", *by], []
    lost = Counter[tuple[Any, ...]]()
    if diverged is not None and len(diverged):
        lost.update(diverged[keys].itertuples(index=False, name=None))
    for values, part in table.groupby(keys, sort=False):
        seeds = [rows for _, rows in part.groupby("seed")]
        shares = [balanced_shares(rows) for rows in seeds]
        balanced = np.array([values.mean() for values in shares]).round(12)
        reach = [n for rows in seeds if (n := exact_to(rows)) is not None]
        mean, *ends = nested_bootstrap(shares)
        low, high = np.clip(ends, 0, 1)  # few seeds stretch an interval beyond
        records.append(
            dict(zip(keys, values, strict=True))
            | {"best": balanced.max(), "mean": mean, "low": low, "high": high}
            | {"seeds": len(seeds), "perfect": int((balanced == 1).sum())}
            | {"exact_to_min": min(reach, default=None), "exact_to_max": max(reach, default=None)}
            | {"diverged": lost.pop(values, 0)}
        )
    nothing = {"seeds": 0, "perfect": 0}
    for values, count in lost.items():
        records.append(dict(zip(keys, values, strict=True)) | nothing | {"diverged": count})
    return pd.DataFrame(records).astype({"exact_to_min": "Int64", "exact_to_max": "Int64"})


def readable(short: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """The summary for reading, in the terminal and on the page."""
    bounds = zip(short["low"], short["high"], strict=True)
    interval = ["-" if np.isnan(low) else f"{100 * low:.0f}-{high:.0%}" for low, high in bounds]
    perfect = short["perfect"].astype(str) + " of " + short["seeds"].astype(str)
    ends = zip(short["exact_to_min"], short["exact_to_max"], strict=True)
    reach = ["-" if pd.isna(a) else str(a) if a == b else f"{a} to {b}" for a, b in ends]
    shown = short[["language", *by]].rename(columns=lambda key: key.rpartition(".")[2])
    shown = shown.assign(
        **{"best": short["best"], "mean": short["mean"], "95%": interval},
        **{"perfect": perfect, "exact to": reach},
    )
    return shown.assign(diverged=short["diverged"]) if short["diverged"].any() else shown


def findings(
    table: pd.DataFrame,
    by: Sequence[str],
    comparison: Measure,
    further: Sequence[Name] = (),
    diverged: Sequence[Mapping[str, Any]] = (),
) -> tuple[str, dict[str, Any]]:
    """The setting whose seeds do best, for each language, and how surely it is ahead of the others.

    Returns:
        The sentence; and {"sentences": one per language, "how": by what settings are compared,
        "settings": the rows of ``summary``, "pairs": those of ``paired.pairs``}, with "bands",
        "measures" and "capacity" if the sweep has them.
    """
    lost = pd.DataFrame(diverged)
    short, values = summary(table, by, lost), by_seed(table, by, comparison)
    tested = paired.pairs(table, by, comparison)
    shares = set(values.loc[values["measure"].isin(WORDS), "language"])
    texts = [
        _sentence(name, grid, tested[tested["language"] == name], bands.failing(values, name))
        if name in shares
        else _number_sentence(name, grid, tested[tested["language"] == name])
        for name, grid in grids(values).items()
    ]
    how = paired.how(tested, comparison)
    tables = {"settings": short, "pairs": tested}
    if comparison.bands:
        tables["bands"] = bands.summary(values)
    if further:
        tables["measures"] = over_seeds(table, by, further, lost)
    rows = {
        name: plain(frame.astype(object).where(frame.notna(), None).to_dict("records"))
        for name, frame in tables.items()
    }
    details = {"sentences": texts, "how": how} | rows | capacity.findings(table, by)
    return " ".join([*texts, how]).rstrip(), details


def _sentence(name: str, grid: pd.DataFrame, tests: pd.DataFrame, failing: Sequence[str]) -> str:
    """The sentence of one language.

    Args:
        grid: its table of ``grids``.
        tests: its rows of ``paired.pairs``.
        failing: the settings that do not learn it inside the window.
    """
    best = tests["best"].iloc[0] if len(tests) else grid.columns[0]
    seeds = grid[best].dropna()
    label = f"{best}: " if best != ALONE else ""
    text = (
        f"{name}: {label}{seeds.mean():.1%} on average, {seeds.max():.1%} at best, "
        f"{int((seeds == 1).sum())} of {len(seeds)} seeds perfect"
    )
    level = tests.loc[paired.drawn(tests), "other"]
    parts = [text, f"level with {' and '.join(level)}" if len(level) else "", paired.told(tests)]
    if failing:
        parts.append(f"inside the window {', '.join(failing)} fail{'s' * (len(failing) == 1)}")
    return "; ".join(part for part in parts if part) + "."


def _number_sentence(name: str, grid: pd.DataFrame, tests: pd.DataFrame) -> str:
    """The sentence of one language whose settings are compared by a number; as ``_sentence``."""
    best = tests["best"].iloc[0] if len(tests) else grid.columns[0]
    seeds = -grid[best].dropna()  # smaller was better
    label = f"{best}: " if best != ALONE else ""
    text = f"{name}: {label}{seeds.mean():.3g} on average, {seeds.min():.3g} at best"
    return "; ".join(part for part in (text, paired.told(tests)) if part) + "."
