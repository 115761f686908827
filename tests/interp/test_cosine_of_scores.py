"""Scores against the cosine of embeddings: SciPy, a planted head, and an exact permutation test."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import spearmanr

from interp.heads.cosine import PERMUTATIONS, agreement_with_cosine


def drawn(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    embeddings = rng.normal(size=(count, 6))
    unit = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings, unit @ unit.T, rng.normal(size=(count, count))


def test_it_is_the_correlation_of_scipy() -> None:
    embeddings, cosine, scores = drawn(9)
    apart = ~np.eye(9, dtype=bool)
    found = agreement_with_cosine(scores, embeddings)
    expected = spearmanr(scores[apart], cosine[apart].round(9)).statistic
    assert found.others == pytest.approx(expected, abs=1e-12)
    whole = spearmanr(scores.ravel(), cosine.round(9).ravel()).statistic
    assert found.everything == pytest.approx(whole, abs=1e-12)
    for token in range(9):
        left = np.delete(np.arange(9), token)
        apart, those = ~np.eye(8, dtype=bool), np.ix_(left, left)
        expected = spearmanr(scores[those][apart], cosine.round(9)[those][apart]).statistic
        assert found.without[token] == pytest.approx(expected, abs=1e-12)


def test_a_head_that_scores_by_the_cosine_is_found_and_noise_is_not() -> None:
    embeddings, cosine, _ = drawn(9)
    found = agreement_with_cosine(3 * cosine - 1, embeddings)
    assert found.others == pytest.approx(1.0)
    assert found.p == pytest.approx(1 / (1 + PERMUTATIONS))
    assert agreement_with_cosine(-cosine, embeddings).others == pytest.approx(-1.0)
    p = np.array([agreement_with_cosine(drawn(7, s)[2], embeddings[:7]).p for s in range(60)])
    assert (p < 0.05).mean() < 0.15
    assert 0.3 < p.mean() < 0.7


def test_the_test_is_mantel_s_over_all_orders() -> None:
    """Few tokens have few orders: the drawn share is near the exact one."""
    embeddings, cosine, scores = drawn(5, 3)
    apart = ~np.eye(5, dtype=bool)
    value = spearmanr(scores[apart], cosine[apart].round(9)).statistic
    every = [
        spearmanr(scores[apart], cosine.round(9)[np.ix_(order, order)][apart]).statistic
        for order in map(list, permutations(range(5)))
    ]
    exact = np.mean(np.abs(every) >= abs(value) - 1e-12)
    assert agreement_with_cosine(scores, embeddings).p == pytest.approx(exact, abs=0.04)


def test_equal_scores_have_no_correlation() -> None:
    found = agreement_with_cosine(np.zeros((4, 4)), drawn(4)[0])
    assert np.isnan([found.others, found.p, found.everything]).all()
