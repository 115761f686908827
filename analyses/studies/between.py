"""One question of two kinds of runs: the differences of its numbers, over the seeds of each."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answer_files import Kept
from analyses.charts import marks
from analyses.charts.theme import QUIET, TRAINED, figures
from analyses.studies.seeds import comparable, figure, means
from interp.statistics import brackets, weighted_sum
from models.runs.run import Run

SIDES = ("first", "second")
ENDS = ["", "_low", "_high"]


def between(
    first: Sequence[Run], second: Sequence[Run], name: str
) -> tuple[pd.DataFrame, str, int]:
    """The numbers of a question that two kinds of runs both have, and their differences.

    All answers are to one and the same question, with the same options. Seeds are no pairs: where
    a seed makes networks of both kinds alike, by its words or first weights, the intervals of the
    differences are too wide, not too narrow.

    Args:
        first: runs that differ in the seed alone; so do those of ``second``.
        name: the name of the question.

    Returns:
        One row per number, in the order of ``headline``: of, variable; the mean of each side with
        its interval and its number of seeds (first, first_low, first_high, first_seeds, ...); and
        difference, low, high: first less second (``weighted_sum``), without an interval where a
        side has none. Empty where a side has no answer. A network that does not know its language
        is left out. Sentences on what these numbers are and which runs have none. And how many
        runs have no answer.
    """
    answers, without = comparable([*first, *second], name)
    paths, sides = {run.path for run in first}, (list[Kept](), list[Kept]())
    for kept in answers:
        if kept.record.knowledge is None or kept.record.knowledge.is_shown:
            sides[kept.folder.parents[1] not in paths].append(kept)
    missing = len(first) + len(second) - len(answers)
    ignorant = len(answers) - sum(map(len, sides))
    legend = f" {ignorant} do not know their language and are left out." * bool(ignorant)
    if missing:
        legend += f" {missing} have no answer: {'; '.join(sorted(set(without.values())))}."
    if not all(sides):
        return pd.DataFrame(), legend.strip(), missing
    tables = [
        means(results).rename(
            columns={"mean": side} | {end: f"{side}_{end}" for end in ("low", "high", "seeds")}
        )
        for side, results in zip(SIDES, sides, strict=True)
    ]
    table = tables[0].merge(tables[1], on=["of", "variable"])
    estimates = [table[[side + end for end in ENDS]].to_numpy() for side in SIDES]
    gaps = [weighted_sum((1, one), (-1, other)) for one, other in zip(*estimates, strict=True)]
    table[["difference", "low", "high"]] = pd.DataFrame(gaps, index=table.index, dtype=float)
    apart, known = ((table["low"] > 0) | (table["high"] < 0)).sum(), table["low"].notna().sum()
    words = (
        f"Means over {len(sides[0])} and {len(sides[1])} networks and their differences, with 95% "
        f"intervals, each by itself: {apart} of {known} leave out 0, and where nothing differs one "
        f"in twenty does by chance.{legend}"
    )
    return table, words, missing


def for_reading(table: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """The rows of ``between`` for reading, under the names of both sides and how many they are."""

    def shown(columns: Sequence[str], sign: str = "") -> list[str]:
        return [
            figure(value, sign) + brackets(low, high, f"{sign}.2f")
            for value, low, high in table[columns].to_numpy()
        ]

    sides = {
        f"mean of {table[f'{s}_seeds'].max()} like {name}": shown([s + end for end in ENDS])
        for s, name in zip(SIDES, (first, second), strict=True)
    }
    sides["difference [95%]"] = shown(["difference", "low", "high"], "+")
    return table[["of", "variable"]].assign(**sides)


def chart(table: pd.DataFrame, of: str) -> ChartType:
    """The differences of one number, a point per variable with its interval, beside 0."""
    points = marks.points(
        table[table["of"] == of],
        alt.X("difference:Q", title="first less second"),
        alt.Y("variable:N", title=None, sort=None),
        ["variable", *figures(*SIDES, "difference", "low", "high")],
        alt.value(TRAINED),
    )
    return alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=QUIET).encode(x="x:Q") + points
