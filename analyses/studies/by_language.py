"""LIME and SHAP against chance and against substitutions, in each language by itself.

Pooled over languages a method may look useful though in one of them it is not. The unit is a
network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from interp.comparisons import Paired, corrected, paired, pairs_needed
from interp.statistics import brackets

COLUMNS = ["language", "words", "first", "second", *Paired.__dataclass_fields__, "corrected"]


def compared(rows: pd.DataFrame, plan: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """Pairs of methods by AUROC, over the seeds of each language.

    Args:
        rows: rows of one architecture; columns language, seed, membership, method (with its scale),
            measure, value. Rows that differ in the replacement alone are averaged.
        plan: the pairs of methods to compare.

    Returns:
        One row per language, kind of words and pair for which both are defined: language, words,
        first, second, the attributes of ``Paired``, corrected (p, Holm's method for all rows).
    """
    auroc = rows[rows["measure"] == "AUROC"]
    if auroc.empty:
        return pd.DataFrame(columns=COLUMNS)
    grid = auroc.pivot_table("value", ["language", "membership", "seed"], "method", sort=False)
    records = []
    # A method is called "language" too: the levels of the index are meant.
    for (language, words), part in grid.groupby(level=["language", "membership"], sort=False):
        for first, second in plan:
            if {first, second} <= set(part.columns[part.notna().any()]):
                test = paired(part[first].to_numpy(), part[second].to_numpy())
                about = {"language": language, "words": words, "first": first, "second": second}
                records.append(about | asdict(test))
    table = pd.DataFrame(records, columns=COLUMNS[:-1])
    return table.assign(corrected=corrected(table["p"].to_numpy(dtype=np.float64)))


def in_words(table: pd.DataFrame, level: float = 0.05) -> str:
    """Every comparison with its interval and p; empty if there is one language or none."""
    if table["language"].nunique() < 2:
        return ""
    parts = []
    for (language, words), rows in table.groupby(["language", "words"], sort=False):
        texts = [
            f"{row.first} {_verdict(row.difference, row.corrected, level)} {row.second} "
            f"({row.difference:+.2f}{brackets(row.low, row.high, '+.2f')}, p {row.corrected:.2g})"
            for row in rows.itertuples(index=False)
        ]
        parts.append(f"{words} of {language}: {'; '.join(texts)}")
    seeds, needed = int(table["pairs"].max()), pairs_needed(len(table), level)
    few = "" if seeds >= needed else f" {seeds} seeds cannot show anything: it takes {needed}."
    return (
        f"Language by language, by AUROC, paired over the seeds (sign flips, Holm over "
        f"{len(table)}). {'. '.join(parts)}.{few}"
    )


def _verdict(difference: float, p: float, level: float) -> str:
    if not p <= level:
        return "is not told from"
    return "is above" if difference > 0 else "is below"
