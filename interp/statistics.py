"""What one sample says about the next: intervals of means and shares, paired tests, corrections.

A claim about a kind of network needs several trained networks, that is, several seeds. Many words
of one network only say how sure we are of that one network. ``t_interval`` is for one number per
seed, ``nested_bootstrap`` for words within seeds, ``bootstrap_mean`` and ``wilson`` for the words
of one network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import combinations
from math import ceil, log2, sqrt
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import binomtest, false_discovery_control, norm, permutation_test, t


def bootstrap_mean(
    values: Float[np.ndarray, "sample *cells"],
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "*cells"], Float[np.ndarray, "*cells"], Float[np.ndarray, "*cells"]]:
    """Mean over the first axis with a percentile bootstrap interval, cell by cell (Efron 1979).

    Whole rows are resampled, so that the cells of one row keep their dependence.

    Args:
        values: at least one row, [sample, *cells]: a row is a word, a pair, ...
        confidence: of the interval, between 0 and 1.
        resamples: how many samples are drawn with replacement.
        seed: of these draws.

    Returns:
        mean, low, high, each of shape [*cells], in the unit of the values.

    Raises:
        ValueError: there is no row.
    """
    values = np.asarray(values, dtype=np.float64)
    count = len(values)
    if not count:
        raise ValueError("there is nothing to take the mean of: give at least one row")
    # Resampled means as one product: how often each row was drawn, times the rows.
    means = np.tensordot(_redrawn(count, resamples, seed) / count, values, axes=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return np.asarray(values.mean(axis=0)), np.asarray(low), np.asarray(high)


def bootstrap_sums(
    sums: Float[np.ndarray, "unit part"],
    of: Callable[[Float[np.ndarray, "*draws part"]], Float[np.ndarray, "*draws"]],
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """A number made of sums over units (a ratio, an R2), with a percentile bootstrap interval.

    Args:
        sums: what each unit adds to each sum: a unit is a word with all its positions, ...
        of: the number, from the totals; the last axis holds the parts.
        confidence: of the interval, between 0 and 1.
        resamples: how many samples of units are drawn with replacement.
        seed: of these draws.

    Returns:
        value, low, high; with a single unit low and high are NaN.

    Raises:
        ValueError: there is no unit.
    """
    if not len(sums):
        raise ValueError("there is nothing to sum: give at least one unit")
    value = float(of(sums.sum(axis=0)))
    if len(sums) < 2:
        return value, float("nan"), float("nan")
    tail = (1 - confidence) / 2
    drawn = of(_redrawn(len(sums), resamples, seed) @ sums)
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return value, float(low), float(high)


@lru_cache(maxsize=2)
def _redrawn(count: int, resamples: int, seed: int) -> Float[np.ndarray, "resample unit"]:
    """How often each unit is drawn in each sample: the same for all that have so many units."""
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=resamples).astype(np.float64)
    drawn.flags.writeable = False
    return drawn


def wilson(successes: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share (1927); it stays in [0, 1] and is sound at 0 and 1.

    Args:
        successes: how many of the ``count`` trials succeeded.
        confidence: of the interval, between 0 and 1.

    Returns:
        low, high.

    Raises:
        ValueError: there is no trial, or more successes than trials.
    """
    interval = binomtest(successes, count).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def t_interval(
    values: Float[np.ndarray, " sample"], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean with Student's interval (1908).

    It is for a handful of seeds, where the interval of a bootstrap would be too narrow.

    Args:
        values: one number per seed, at least one.
        confidence: of the interval, between 0 and 1.

    Returns:
        mean, low, high, in the unit of the values; with a single value low and high are NaN.
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return mean, float("nan"), float("nan")
    half = t.ppf((1 + confidence) / 2, count - 1) * np.std(values, ddof=1) / np.sqrt(count)
    return mean, mean - float(half), mean + float(half)


def nested_bootstrap(
    words: Sequence[Float[np.ndarray, " _"]],
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """Mean over seeds of the means over words, with a bootstrap interval over both.

    Seeds are drawn with replacement, then words within each seed (Saravanan et al. 2020). The plain
    percentiles of these draws have two faults: they count the scatter of words twice, and with few
    seeds they miss scatter between seeds. In our simulations of 95% intervals over five seeds, 84%
    held the true mean where seeds differ more than words, and 98% where words differ more.

    Two steps mend this. First the seeds' means are moved together or apart until the resampled
    means scatter as much as an unbiased estimate says (Davison and Hinkley 1997, section 3.8). Then
    the percentiles are stretched about the mean by Student's quantile over the normal one. With
    five to ten seeds 93 to 99% of the intervals then hold the true mean, and 89 to 91% if seeds are
    skewed (exponential). With two or three seeds 92 to 100% do, and most are too wide.

    ``t_interval`` of the seeds' means does as well (92 to 96%; skewed 89 to 91%) and is simpler,
    but only the interval of this function shows skewness.

    Args:
        words: one array per seed, one value per word. Seeds may have different numbers of words;
            each seed weighs the same.
        confidence: of the interval, between 0 and 1.
        resamples: how many samples are drawn.
        seed: of these draws.

    Returns:
        mean, low, high, in the unit of the values. With a single seed low and high are NaN, because
        nothing tells how seeds differ.

    Raises:
        ValueError: there is no seed, or a seed without words.
    """
    if not all(len(values) for values in words) or not len(words):
        sizes = [len(values) for values in words]
        raise ValueError(f"expected at least one seed and one word of each, got {sizes} words")
    means = np.array([values.mean() for values in words])
    mean, count = float(means.mean()), len(means)
    if count < 2:
        return mean, float("nan"), float("nan")
    between, within = means.var(ddof=1), np.mean([x.var() / len(x) for x in words])
    wanted = max(0.0, between - within) * count / (count - 1)
    centres = mean + (means - mean) * (sqrt(wanted / between) if between > 0 else 0.0)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(count, size=(resamples, count))
    redrawn = np.empty(drawn.shape)
    for index, values in enumerate(words):
        here = drawn == index
        rows = rng.integers(len(values), size=(int(here.sum()), len(values)))
        redrawn[here] = centres[index] + values[rows].mean(axis=1) - means[index]
    tail = (1 - confidence) / 2
    ends = np.quantile(redrawn.mean(axis=1), [tail, 1 - tail]) - mean
    low, high = mean + ends * t.ppf(tail, count - 1) / norm.ppf(tail)
    return mean, float(low), float(high)


@dataclass(frozen=True)
class Paired:
    """A comparison of two variants on the same units.

    Attributes:
        difference: the mean of first minus second; positive if the first is larger.
        low: lower end of its interval, Student's over the pairs; NaN with fewer than two pairs.
        high: upper end of its interval.
        p: two-sided p-value of the sign-flip test; NaN without a pair.
        wins: share of pairs in which the first is larger; a draw counts half; NaN without a pair.
        pairs: on how many units both were measured.
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
    that is up to 13 pairs; otherwise ``resamples`` random ones. Few pairs can say little: the
    smallest p of n pairs is 2^(1 - n), which is 0.25 for three and 0.06 for five (see
    ``pairs_needed``). The interval assumes normal differences and the test does not, so the two may
    disagree.

    Args:
        first: one value per unit; a NaN on either side drops the pair.
        second: the values of the same units in the same order. Words within seeds are no
            independent units: give the seeds' means instead.
        confidence: of the interval, between 0 and 1.
        resamples: the most sign flips that are tried.
        seed: of the random ones.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    gap = (first - second)[both]
    if not len(gap):
        nan = float("nan")
        return Paired(nan, nan, nan, nan, nan, 0)
    p = 1.0  # with one pair either sign is as far from 0
    if len(gap) > 1:
        test = permutation_test(
            (gap,),
            np.mean,
            permutation_type="samples",  # with a single sample this flips signs
            n_resamples=resamples,
            batch=max(1, 1_000_000 // len(gap)),
            rng=np.random.default_rng(seed),
        )
        p = float(test.pvalue)
    wins = float((gap > 0).mean() + (gap == 0).mean() / 2)
    return Paired(*t_interval(gap, confidence), p, wins, len(gap))


def pairs_needed(tests: int, level: float = 0.05) -> int:
    """How many pairs a sign-flip test needs to be able to pass Holm's correction.

    With fewer pairs even the smallest possible p of ``tests`` tests stays above ``level``.
    """
    return 1 + ceil(log2(tests / level))


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
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
    p = np.asarray(p, dtype=np.float64)
    made = ~np.isnan(p)
    values = p[made]
    if ((values < 0) | (values > 1)).any():
        raise ValueError(f"expected p-values from 0 to 1, got {values.min()} to {values.max()}")
    result = np.full(p.shape, np.nan)
    if len(values):
        # statsmodels has Holm's method too. But it collects all garbage in every call, which takes
        # a third of a second beside torch, for what is a sort.
        adjust = holm if method == "Holm" else false_discovery_control
        result[made] = adjust(values)
    return result


def all_pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """Compares every two columns on the rows, so that the best one can be told from the others.

    The best column is picked by the same numbers on which it is tested. So the correction counts
    all pairs, not only those of the best column.

    Args:
        scores: a row per unit, a column per variant; larger is better.

    Returns:
        One row per pair, pairs of the best column first: first (the better on average), second,
        the attributes of ``Paired``, corrected (p, by Holm's method).
    """
    ranked = scores.mean().round(12).sort_values(ascending=False, kind="stable").index
    rows = [
        {"first": first, "second": second}
        | asdict(paired(scores[first].to_numpy(), scores[second].to_numpy()))
        for first, second in combinations(ranked, 2)
    ]
    columns = ["first", "second", *Paired.__dataclass_fields__]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(corrected=corrected(table["p"].to_numpy(dtype=np.float64)))
