"""The comparisons that a question plans, tested over seeds.

The unit is a trained network. A question fixes what it compares, whatever the numbers are, and all
that it compares is corrected together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd

from analyses.answer_files import Kept
from analyses.answers import numbers, question
from analyses.studies.seeds import comparable, figure, groups
from interp.comparisons import Paired, corrected, paired, pairs_needed
from models.runs.run import Run

LEVEL = 0.05
COLUMNS = ["of", "first", "second", *Paired.__dataclass_fields__, "corrected"]


def compared(results: Sequence[Kept]) -> pd.DataFrame:
    """The planned comparisons of a question.

    Args:
        results: an answer per seed, at least one.

    Returns:
        One row per comparison that at least one seed has both numbers for: of (what the two numbers
        have in common), first, second, the attributes of ``Paired`` (difference is first less
        second), corrected (p, by Holm's method for all rows).
    """
    heads = [numbers(kept.record.numbers) for kept in results]
    rows = []
    for plan in question(results[0].record.analysis).planned:
        other = "variable" if plan.by == "of" else "of"
        grids = [head.pivot_table("value", other, plan.by, sort=False) for head in heads]
        first, second = (
            pd.concat([grid.get(side, pd.Series(dtype=float)) for grid in grids], axis=1)
            for side in (plan.first, plan.second)
        )
        for of in first.index.intersection(second.index, sort=False):
            test = paired(first.loc[of].to_numpy(), second.loc[of].to_numpy())
            if plan.alone in (None, of) and test.pairs:
                about = {"of": of, "first": plan.first, "second": plan.second}
                rows.append(about | asdict(test))
    table = pd.DataFrame(rows, columns=COLUMNS[:-1])
    return table.assign(corrected=corrected(table["p"].to_numpy(dtype=np.float64)))


def compared_groups(runs: Sequence[Run], names: Sequence[str]) -> pd.DataFrame:
    """The rows of ``compared`` for every group of runs and every question.

    Two more columns stand first: group (its label) and analysis. A group of one seed has no row.
    """
    tables = [
        compared(results).assign(group=group.label, analysis=name)
        for group in groups(runs)
        for name in names
        if len(results := comparable(group.runs, name)[0]) > 1
    ]
    columns = ["group", "analysis", *COLUMNS]
    parts = [table for table in tables if len(table)]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def for_reading(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The rows of ``compared`` for reading, and a sentence that says what was tested and how."""
    shown = pd.DataFrame(
        {
            "of": table["of"],
            "first": table["first"],
            "second": table["second"],
            "first less second [95%]": [
                "{} [{}, {}]".format(*(figure(end, "+") for end in ends))
                for ends in table[["difference", "low", "high"]].to_numpy()
            ],
            "p, corrected": [f"{p:.2g}" for p in table["corrected"]],
            "seeds": table["pairs"],
        }
    )
    seeds, needed = int(table["pairs"].max()), pairs_needed(len(table), LEVEL)
    how = (
        "Mean difference over the networks of so many seeds [95% interval; of fewer than six it is "
        "Student's, which trusts in a normal distribution], sign-flip test, Holm's correction for "
        f"the {len(table)} comparisons that the question plans."
    )
    if seeds < needed:
        how += f" {seeds} seeds cannot show anything: it takes {needed}."
    return shown, how
