"""Intervals: what a mean or a share over a sample says about the next one."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.stats import binomtest, t


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
