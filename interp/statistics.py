"""What a sample says about the next one: intervals of means and shares, paired tests, corrections.

The unit of a claim about a kind of network is the trained network, its seed: words of one network
say how sure we are of that network alone. ``t_interval`` is for one number per seed,
``nested_bootstrap`` for words within seeds, ``bootstrap_mean`` and ``wilson`` for the words of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
    """Mean over the first axis with a percentile bootstrap interval, cell by cell.

    The rows are resampled as wholes, so cells of one row keep their dependence (Efron 1979).

    Returns:
        mean, low, high, each of shape [*cells].
    """
    values = np.asarray(values, dtype=np.float64)
    count = len(values)
    rng = np.random.default_rng(seed)
    # Resampled means as one product: how often each row was drawn, times the rows.
    drawn = rng.multinomial(count, np.full(count, 1 / count), size=resamples) / count
    means = np.tensordot(drawn, values, axes=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail], axis=0)
    return np.asarray(values.mean(axis=0)), np.asarray(low), np.asarray(high)


def wilson(successes: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share (1927); it stays in [0, 1] and is sound at 0 and 1."""
    interval = binomtest(successes, count).proportion_ci(confidence, method="wilson")
    return float(interval.low), float(interval.high)


def t_interval(
    values: Float[np.ndarray, " sample"], confidence: float = 0.95
) -> tuple[float, float, float]:
    """Mean with Student's interval (1908), for a handful of seeds: a bootstrap is too narrow there.

    Returns:
        mean, low, high; of a single value both ends are NaN.
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

    Seeds are drawn with replacement, then words within each (Saravanan et al. 2020). Plain
    percentiles of that count the words' scatter twice and, with few seeds, miss scatter between
    them: of our simulated 95% intervals over five seeds 84% held the truth where the seeds differ
    more, 98% where the words do. So the seeds' means are first moved together or apart until
    resampled means scatter as much as an unbiased estimate says (Davison and Hinkley 1997, section
    3.8), and the percentiles are then stretched about the mean by Student's quantile over the
    normal one. Of five to ten seeds 93 to 99% then hold the truth, 89 to 91% if seeds are skewed
    (exponential); of two or three 92 to 100%, mostly too wide. ``t_interval`` of the seeds' means
    does as well (92 to 96%; skewed 89 to 91%) and is simpler; this one shows skewness.

    Args:
        words: a value per word, an array per seed; their numbers may differ, and each seed weighs
            the same.

    Returns:
        mean, low, high; of a single seed both ends are NaN, for nothing tells how seeds differ.

    Raises:
        ValueError: no seed, or one without words.
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
    """Two variants on the same units.

    Attributes:
        difference: mean of first less second.
        low: of its interval, Student's over the pairs; NaN of fewer than two.
        high: its other end.
        p: two-sided, of the sign-flip test; NaN without a pair.
        wins: share of pairs in which the first is larger, draws half; NaN without a pair.
        pairs: how many both were measured on.
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

    If neither is better, each difference may as well have the other sign: p is the share of all
    sign flips whose mean is at least as far from 0 (Fisher 1935). All are tried where there are no
    more than ``resamples``, so up to 13 pairs, else that many random ones. Few pairs can say
    little: of n the smallest p is 2^(1 - n), 0.25 of three, 0.06 of five (see ``pairs_needed``).
    The interval leans on normality where the test does not; the two may disagree.

    Args:
        first: a value per unit; a NaN on either side drops the pair.
        second: of the same units in the same order. Words within seeds are no independent units:
            give the seeds' means.
    """
    both = ~(np.isnan(first) | np.isnan(second))
    gap = (first - second)[both]
    if not len(gap):
        nan = float("nan")
        return Paired(nan, nan, nan, nan, nan, 0)
    p = 1.0  # of one pair: either sign is as far from 0
    if len(gap) > 1:
        test = permutation_test(
            (gap,),
            np.mean,
            permutation_type="samples",  # of one sample: its signs
            n_resamples=resamples,
            batch=max(1, 1_000_000 // len(gap)),
            rng=np.random.default_rng(seed),
        )
        p = float(test.pvalue)
    wins = float((gap > 0).mean() + (gap == 0).mean() / 2)
    return Paired(*t_interval(gap, confidence), p, wins, len(gap))


def pairs_needed(tests: int, level: float = 0.05) -> int:
    """Pairs below which not even the clearest of so many sign-flip tests can pass Holm's."""
    return 1 + ceil(log2(tests / level))


def holm(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """The smallest p times the number of tests, the next times one less, ...; never falling."""
    order = np.argsort(p)
    steps = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(steps, 1.0)[np.argsort(order)]


def corrected(
    p: Float[np.ndarray, "*tests"],
    method: Literal["Holm", "Benjamini-Hochberg"] = "Holm",
) -> Float[np.ndarray, "*tests"]:
    """p-values corrected for their number; at most 1, in the order given.

    Args:
        p: NaN is a test that was not made: it stays NaN and does not count.
        method: "Holm" (1979) keeps the chance of any false alarm below the level, whatever the
            dependence; "Benjamini-Hochberg" (1995) the expected share of false ones among alarms,
            of independent or positively dependent tests.

    Raises:
        ValueError: a value that is no probability.
    """
    p = np.asarray(p, dtype=np.float64)
    made = ~np.isnan(p)
    values = p[made]
    if ((values < 0) | (values > 1)).any():
        raise ValueError(f"expected p-values from 0 to 1, got {values.min()} to {values.max()}")
    result = np.full(p.shape, np.nan)
    if len(values):
        # statsmodels has Holm's method too, but collects all garbage in every call: a third of a
        # second beside torch, for a sort.
        adjust = holm if method == "Holm" else false_discovery_control
        result[made] = adjust(values)
    return result


def all_pairs(scores: pd.DataFrame) -> pd.DataFrame:
    """Every two columns compared on the rows; whichever is named best may be told from the others.

    The best column is picked by the same numbers that it is tested on, so that all pairs count for
    the correction, not only its own.

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
