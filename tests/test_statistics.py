"""Intervals against scipy's and against their closed forms."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap, norm

from interp.statistics import bootstrap_mean, wilson


def test_the_bootstrap_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    mean, low, high = bootstrap_mean(values, resamples=10000)
    theirs = bootstrap(
        (values,),
        np.mean,
        n_resamples=10000,
        method="percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert mean == pytest.approx(values.mean())
    assert low == pytest.approx(theirs.low, abs=0.04 * width)
    assert high == pytest.approx(theirs.high, abs=0.04 * width)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_the_bootstrap_of_a_large_sample_is_normal(confidence: float) -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, size=1000)
    mean, low, high = bootstrap_mean(values, confidence, resamples=10000)
    half = norm.ppf((1 + confidence) / 2) * values.std() / sqrt(len(values))
    assert low == pytest.approx(mean - half, abs=0.08 * half)
    assert high == pytest.approx(mean + half, abs=0.08 * half)


def test_cells_of_one_row_stay_together() -> None:
    """The second cell is the first turned round: so are its intervals, draw by draw."""
    x = np.random.default_rng(0).normal(size=(30, 2))
    mean, low, high = bootstrap_mean(np.stack([x, 1 - x], axis=1))
    assert mean.shape == low.shape == high.shape == (2, 2)
    assert mean[1] == pytest.approx(1 - mean[0])
    assert low[1] == pytest.approx(1 - high[0])
    assert high[1] == pytest.approx(1 - low[0])


def test_the_bootstrap_hangs_on_its_seed_alone() -> None:
    values = np.random.default_rng(0).normal(size=20)
    np.random.seed(1)
    first = bootstrap_mean(values, seed=5)
    np.random.seed(2)
    again, other = bootstrap_mean(values, seed=5), bootstrap_mean(values, seed=6)
    assert first == again
    assert first[1] != other[1]


def test_a_constant_has_no_spread() -> None:
    assert [float(x) for x in bootstrap_mean(np.full(7, 0.25))] == pytest.approx([0.25] * 3)


@given(st.integers(1, 500), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_is_its_closed_form(count: int, share: float, confidence: float) -> None:
    """(p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n), Wilson 1927."""
    successes = round(share * count)
    p, z = successes / count, norm.ppf((1 + confidence) / 2)
    centre = p + z**2 / (2 * count)
    half = z * sqrt(p * (1 - p) / count + z**2 / (4 * count**2))
    low, high = wilson(successes, count, confidence)
    assert low == pytest.approx((centre - half) / (1 + z**2 / count), abs=1e-9)
    assert high == pytest.approx((centre + half) / (1 + z**2 / count), abs=1e-9)
    assert 0 <= low <= p + 1e-12
    assert p - 1e-12 <= high <= 1
