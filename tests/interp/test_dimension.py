"""The participation ratio against eigenvalues and closed forms; its interval."""

from __future__ import annotations

import numpy as np
import pytest

from interp.vectors.dimension import participation_ratios


def participation_ratio(x: np.ndarray) -> float:
    """The ratio of vectors, without its interval."""
    return participation_ratios(x, np.zeros(len(x), dtype=np.int64))[0]


@pytest.mark.parametrize("width", [1, 3, 8])
def test_it_is_made_of_the_eigenvalues_of_the_covariance(width: int) -> None:
    rng = np.random.default_rng(width)
    x = rng.normal(size=(50, width)) * np.arange(1, width + 1) + 1e3
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(x.T)))
    assert participation_ratio(x) == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-9)


def test_equal_directions_count_once_each_and_a_line_is_one() -> None:
    corners = np.vstack([np.eye(5), -np.eye(5)])
    assert participation_ratio(corners) == pytest.approx(5.0, abs=1e-12)
    assert participation_ratio(corners[:, :2] @ np.ones((2, 7))) == pytest.approx(1.0, abs=1e-12)
    assert np.isnan(participation_ratio(np.ones((4, 3))))


def test_turning_and_scaling_change_nothing() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4)) * [1, 2, 3, 4]
    turned = x @ np.linalg.qr(rng.normal(size=(4, 4)))[0] * 7 - 3
    assert participation_ratio(turned) == pytest.approx(participation_ratio(x), rel=1e-12)


def test_the_interval_is_over_words_and_holds_the_truth() -> None:
    rng, truth, held = np.random.default_rng(1), (1 + 4) ** 2 / (1 + 16), 0
    for _ in range(40):
        words = rng.normal(size=(200, 2)) * [1, 2]
        value, low, high = participation_ratios(np.repeat(words, 3, axis=0), np.arange(600) // 3)
        assert value == pytest.approx(participation_ratio(words))
        assert low < high
        held += low <= truth <= high
    assert held >= 34
    # Copies are no words of their own: as such they would make it narrower.
    several = participation_ratios(np.repeat(words, 3, axis=0), np.arange(600))
    assert several[2] - several[1] < 0.75 * (high - low)
    assert np.isnan(participation_ratios(words, np.zeros(200, dtype=int))[1:]).all()
