"""Is the best setting of a sweep better, or was it lucky? Settings are compared seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import pandas as pd

from analyses.studies.sweeps.measures import WORDS, Measure, by_seed, grids
from interp.comparisons import all_pairs, pairs_needed

LEVEL = 0.05
COLUMNS = ("language", "measure", "best", "other")


def pairs(table: pd.DataFrame, by: Sequence[str], comparison: Measure) -> pd.DataFrame:
    """The best setting of each language beside every other one; empty if there is a single setting.

    Columns: language, measure, best, other, difference (by how much the best is ahead, in the
    numbers of ``grids``), low, high (95%, Student's t over seeds), p (of the sign-flip test over
    seeds), wins (share of seeds in which the best one is ahead), pairs (seeds), corrected (p, by
    Holm's method for all pairs of the language's settings, since the seeds also choose which one is
    best).
    """
    values = by_seed(table, by, comparison)
    measure = values.groupby("language")["measure"].first()
    parts = []
    for name, grid in grids(values).items():
        rows = all_pairs(grid)
        tests = rows[rows["first"] == rows["first"].iloc[0]] if len(rows) else rows
        tests = tests.rename(columns={"first": "best", "second": "other"})
        parts.append(tests.assign(language=name, measure=measure[name]))
    rows = pd.concat(parts, ignore_index=True)
    return rows[[*COLUMNS, *(column for column in rows.columns if column not in COLUMNS)]]


def versus(tested: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The pairs for reading: a table per language, under a title that names the best setting."""
    if tested.empty:
        return {}
    tables = {}
    for (name, best), rows in tested.groupby(["language", "best"], sort=False):
        tables[f"{name}: {best} is ahead"] = pd.DataFrame(
            {
                "of": rows["other"].to_numpy(),
                "by [95%]": [_gap(row) for _, row in rows.iterrows()],
                "p, corrected": rows["corrected"].to_numpy(),
                "seeds": rows["pairs"].to_numpy(),
            }
        )
    return tables


def _gap(row: pd.Series) -> str:
    """A difference with its interval, if it has one: "0.021 [0.008, 0.033]"."""
    digits = ".3f" if row["measure"] in WORDS else ".3g"
    ends = "" if row["pairs"] < 2 else f" [{row['low']:{digits}}, {row['high']:{digits}}]"
    return f"{row['difference']:{digits}}{ends}"


def drawn(rows: pd.DataFrame) -> pd.Series:
    """A mask of the pairs of one language whose other setting is as good as the best."""
    return rows["difference"].abs() < 1e-9


def told(rows: pd.DataFrame) -> str:
    """The lead of the best setting of one language, and the number of others that it is
    significantly ahead of. "" where no other one is behind."""
    others = rows[~drawn(rows)]
    if others.empty:
        return ""
    nearest = others.iloc[0]
    sentence = f"ahead of the nearest other setting, {nearest['other']}, by {_gap(nearest)}"
    if nearest["pairs"] < _needed(rows):
        return sentence
    apart = int((others["corrected"] <= LEVEL).sum())
    sentence += f", corrected p = {nearest['corrected']:.2g}"
    return f"{sentence}, and significantly ahead of {apart} of the {len(others)} others"


def _tests_of(tests: pd.DataFrame) -> int:
    """The number of pairs of one language's settings. The correction counts all of them."""
    return comb(len(tests) + 1, 2)


def _needed(tests: pd.DataFrame) -> int:
    """The fewest seeds with which the exact test can tell two settings of one language apart."""
    return pairs_needed(_tests_of(tests), LEVEL)


def how(tested: pd.DataFrame, comparison: Measure) -> str:
    """The comparison in words: the measure, the seeds and the test; "" without two settings."""
    if tested.empty:
        return ""
    largest = max((rows for _, rows in tested.groupby("language")), key=len)
    seeds = int(tested["pairs"].max())
    words = f"Settings are compared by {comparison.words}"
    others = tested.loc[tested["measure"] != comparison.measure, "language"].unique()
    if len(others):
        lack = "verdicts alone are taught" if comparison.measure == "exact" else "it is not known"
        words += f" (by words recognised on {', '.join(others)}, where {lack})"
    if seeds < 2:
        return f"{words}. One seed tests nothing: the order of the settings may be chance."
    tests = _tests_of(largest)
    correction = f"p corrected for all {tests} pairs of a language (Holm)"
    words += (
        f", paired over {seeds} seeds: mean difference [95% interval], sign-flip test, "
        f"{correction if tests > 1 else 'one pair of settings, so no correction'}."
    )
    if seeds < (needed := _needed(largest)):
        words += f" {seeds} seeds are too few to tell any two apart: the exact test needs {needed}."
    return words
