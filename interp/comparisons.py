"""Tests: is one variant better than another, and is a mean above a bar? With corrections.

The unit of a test is what varies: a seed, or within one network a word. Many tests are corrected
for their number.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations, product
from math import ceil, log2, sqrt
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.special import stdtr

from interp.statistics import t_interval

EXACT = 13
"""The most pairs of which all sign flips are tried, unless more are asked for."""


def above(
    values: Float[np.ndarray, " value"], unit: Int[np.ndarray, " value"], bar: float = 0.0
) -> float:
    """The p-value of the claim that a mean lies above a bar: Student's test over whole units.

    Values of one unit (equal words, the positions of a word) depend on each other. So the standard
    error is that of a ratio of sums over units (Cochran 1977, section 6.3): of many copies of one
    word it is no smaller than of one.

    Args:
        values: one number each; NaN is left out.
        unit: the unit of each value, as a number.
        bar: the value that the mean is held against.

    Returns:
        The one-sided p-value; NaN with fewer than two units. Where units do not vary at all it is 0
        if the mean lies above the bar, else 1.
    """
    made = ~np.isnan(values)
    _, place = np.unique(unit[made], return_inverse=True)
    if place.max(initial=0) < 1:
        return float("nan")
    sums, counts = np.bincount(place, weights=values[made]), np.bincount(place)
    mean, units = sums.sum() / counts.sum(), len(sums)
    off = np.square(sums - mean * counts).sum() * units / (units - 1)
    if off < 1e-24:
        return float(mean <= bar)
    return float(stdtr(units - 1, (bar - mean) * counts.sum() / sqrt(off)))


@dataclass(frozen=True)
class Paired:
    """A comparison of two variants on the same units.

    Attributes:
        difference: the mean of first minus second; positive if the first is larger.
        low: lower end of its interval; NaN with fewer than two pairs.
        high: upper end of its interval.
        p: two-sided p-value of the sign-flip test; NaN without a pair.
        wins: share of pairs in which the first is larger; a draw counts half; NaN without a pair.
        pairs: number of units on which both were measured.
    """

    difference: float
    low: float
    high: float
    p: float
    wins: float
    pairs: int


def paired(
    first: Float[np.ndarray, " unit"],
    second: Float[np.ndarray, " unit"],
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Paired:
    """Compares two variants that were measured on the same units (seeds; or words of one network).

    The test flips signs (Fisher 1935). If neither variant is better, each difference could as well
    have the other sign. So p is the share of all ways to flip signs whose mean is at least as far
    from 0 as the measured one. All ways are tried if there are no more than ``resamples`` of them,
    that is up to 13 pairs; otherwise ``resamples`` random ones, of which the smallest p is 2 /
    (resamples + 1). Few pairs can say little: the smallest p of n pairs is 2^(1 - n), which is 0.25
    for three and 0.06 for five (see ``pairs_needed``). The interval of 6 to 13 pairs is the test's
    own (Hartigan 1969): the mean lies between two means of subsets of the differences, and 0 lies
    outside if and only if p is small. With fewer pairs such an interval has no ends, and with more
    it is near to Student's, which is given.

    Args:
        first: one value per unit; a NaN on either side drops the pair.
        second: the values of the same units in the same order. Words within seeds are no
            independent units: give the seeds' means instead.
        confidence: confidence of the interval, between 0 and 1.
        resamples: the most sign flips that are tried.
        seed: seed of the random ones.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    gap = (first - second)[both]
    if not len(gap):
        nan = float("nan")
        return Paired(nan, nan, nan, nan, nan, 0)
    p = 1.0  # with one pair either sign is as far from 0
    if len(gap) > 1:  # with a single sample "samples" flips signs
        p = _permuted(gap, np.mean, "samples", resamples, seed)[1]
    mean, low, high = t_interval(gap, confidence)
    if len(gap) <= EXACT and (cut := int((1 - confidence) / 2 * 2 ** len(gap) + 1e-9)):
        subsets = np.array(list(product((0, 1), repeat=len(gap))))[1:]
        means = np.sort(subsets @ gap / subsets.sum(axis=1))
        low, high = float(means[cut - 1]), float(means[-cut])
    wins = float((gap > 0).mean() + (gap == 0).mean() / 2)
    return Paired(mean, low, high, p, wins, len(gap))


def _permuted(
    values: Float[np.ndarray, " unit"], statistic: Any, kind: str, resamples: int, seed: int
) -> tuple[float, float]:
    """A statistic and the p of its permutation test."""
    from scipy.stats import permutation_test  # slow to load, and most commands test nothing

    batch, rng = max(1, 1_000_000 // len(values)), np.random.default_rng(seed)
    how = {"permutation_type": kind, "n_resamples": resamples, "batch": batch, "rng": rng}
    test = permutation_test((values,), statistic, **how)
    return float(test.statistic), float(test.pvalue)


def rank_correlation(
    first: Float[np.ndarray, " unit"],
    second: Float[np.ndarray, " unit"],
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[float, float]:
    """Spearman's correlation (1904) of two measures of the same units, with its two-sided p-value.

    The test orders one side anew (Fisher 1935): in all ways if there are no more than ``resamples``
    of them, that is up to 7 units, otherwise in ``resamples`` random ones.

    Args:
        first: one value per unit.
        second: the values of the same units in the same order.
        resamples: the most orders that are tried.
        seed: seed of the random ones.

    Returns:
        The correlation, from -1 to 1, and p; both NaN if there are fewer than two units, or all
        values of a side are equal.
    """
    from scipy.stats import rankdata, zscore

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan"), float("nan")
    ranks = zscore(rankdata(first)), zscore(rankdata(second))

    def together(order: np.ndarray, axis: int) -> Any:
        return (order * ranks[1]).mean(axis=axis)

    return _permuted(ranks[0], together, "pairings", resamples, seed)


def pairs_needed(tests: int, level: float = 0.05) -> int:
    """The number of pairs that a sign-flip test needs to be able to pass Holm's correction.

    With fewer pairs even the smallest possible p of ``tests`` tests stays above ``level``.
    """
    return 1 + ceil(log2(tests / level))


def _holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """Holm's correction (1979): p-values times the number of tests that are left, never falling.

    The smallest p is multiplied by the number of tests, the next by one less, and so on. A result
    is at least as large as the one before it, and at most 1. The order of the tests stays.
    """
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(steps, 1.0)[np.argsort(order)]


def corrected(
    p: Float[np.ndarray, "*tests"],
    method: Literal["Holm", "Benjamini-Hochberg"] = "Holm",
) -> Float[np.ndarray, "*tests"]:
    """p-values corrected for their number; at most 1, in the order given.

    Args:
        p: p-values of any shape. NaN is a test that was not made: it stays NaN and does not count.
        method: "Holm" (1979) keeps the chance of any false alarm below the level, however the tests
            depend on each other. "Benjamini-Hochberg" (1995) keeps the expected share of false
            alarms among all alarms below it, if tests are independent or positively dependent.

    Raises:
        ValueError: a value is no probability.
    """
    from scipy.stats import false_discovery_control

    p = np.asarray(p, dtype=np.float64)
    made = ~np.isnan(p)
    values = p[made]
    if ((values < 0) | (values > 1)).any():
        raise ValueError(f"expected p-values from 0 to 1, got {values.min()} to {values.max()}")
    result = np.full(p.shape, np.nan)
    if len(values):
        # statsmodels has Holm's method too. But it collects all garbage in every call, which takes
        # a third of a second beside torch, for what is a sort.
        adjust = _holm if method == "Holm" else false_discovery_control
        result[made] = adjust(values)
    return result


def all_pairs(scores: pd.DataFrame, level: float = 0.05) -> pd.DataFrame:
    """Compares every two columns on the rows: is the best one better than the others?

    The best column is picked by the same numbers on which it is tested. So the correction counts
    all pairs, not only those of the best column.

    Args:
        scores: a row per unit, a column per variant; larger is better.
        level: level of the claims. So many sign flips are tried that the smallest p can pass it.

    Returns:
        One row per pair, pairs of the best column first: first (the better on average), second,
        the attributes of ``Paired``, corrected (p, by Holm's method).
    """
    ranked = scores.mean().round(12).sort_values(ascending=False, kind="stable").index
    couples = list(combinations(ranked, 2))
    resamples = max(10_000, ceil(4 * len(couples) / level))
    rows = [
        {"first": first, "second": second}
        | asdict(paired(scores[first].to_numpy(), scores[second].to_numpy(), resamples=resamples))
        for first, second in couples
    ]
    columns = ["first", "second", *Paired.__dataclass_fields__]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(corrected=corrected(table["p"].to_numpy(dtype=np.float64)))
