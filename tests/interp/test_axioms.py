"""What the lectures say of LIME and SHAP, as axioms: consistent, local, ignorant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_games import VALUES, of_values

from interp.explanations.axioms import _raised, consistency
from interp.explanations.games import Game, exact_shapley, on_both_scales, subsets
from interp.explanations.interventions import leave_one_out
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)
from interp.explanations.scores import fit

RNG = np.random.default_rng(0)
GAMES = [RNG.normal(size=2**size) for size in (2, 3, 4, 5) for _ in range(2)]

# -- consistent ---------------------------------------------------------------------------------


@given(VALUES, st.integers(0, 3), st.lists(st.integers(0, 8), min_size=8, max_size=8))
def test_a_symbol_that_contributes_more_never_gets_a_smaller_shapley_value(
    values: np.ndarray, position: int, rises: list[int]
) -> None:
    """The axiom itself, of any rise in any coalitions (Lundberg and Lee 2017)."""
    size = len(values).bit_length() - 1
    own = position % size
    has = subsets(size)[:, own]
    more = values.copy()
    more[has] += np.array(rises[: has.sum()]) / 4
    before, after = exact_shapley(of_values(values)), exact_shapley(of_values(more))
    assert after[own] >= before[own] - 1e-12


@pytest.mark.parametrize(
    "method", [exact_shapley, shap_exact, kernel_shap, permutation_shap, partition_shap]
)
def test_shap_keeps_the_axiom(method: Callable[[Game], np.ndarray]) -> None:
    assert [consistency(method, of_values(values)) for values in GAMES] == [1.0] * len(GAMES)


def test_lime_breaks_the_axiom() -> None:
    """It weighs coalitions by their nearness to the word; a rise in one can turn a slope down."""
    found = [consistency(lambda game: lime(game, 512), of_values(values)) for values in GAMES]
    assert 0.5 < np.mean(found) < 0.99


def test_a_method_that_punishes_contributions_is_caught() -> None:
    for values in GAMES[:4]:
        assert consistency(lambda game: -exact_shapley(game), of_values(values)) == 0
    assert np.isnan(consistency(exact_shapley, of_values(np.full(8, 0.5))))


def test_a_raise_touches_one_coalition_and_the_seed_says_which() -> None:
    played = of_values(GAMES[-1])
    values = _raised(played, seed=3, times=5).values()
    assert values.shape == (32, 1 + 5 * 5)
    assert (values[:, 0] == GAMES[-1]).all()
    for output, own in enumerate(np.repeat(np.arange(5), 5), 1):
        (changed,) = np.flatnonzero(values[:, output] != values[:, 0])
        assert subsets(5)[changed, own]
        rise = values[changed, output] - values[changed, 0]
        assert rise == pytest.approx(GAMES[-1].std())
    assert not np.array_equal(values, _raised(played, seed=4, times=5).values())
    assert played.link(np.zeros(3)).shape == (3,)  # the game itself is as it was


# -- local --------------------------------------------------------------------------------------


def test_lime_is_nearer_to_the_game_near_the_word_than_far_from_it() -> None:
    """Where the game is one sum near the word and another far from it; SHAP weighs both ends."""
    size = 9
    keep = subsets(size)
    near, far = fits = [], []
    for seed in range(6):
        one, other = np.random.default_rng(seed).normal(size=(2, size))
        shown = keep.sum(axis=1)
        values = np.where(shown > size / 2, keep @ one, keep @ other)
        played = of_values(values)
        answers = np.stack([lime(played, 2000, seed), exact_shapley(played)])
        for place, each in zip(fits, fit(answers, np.stack([values] * 2)).values(), strict=True):
            place.append(each)
    lime_near, shap_near = np.mean(near, axis=0)
    lime_far, shap_far = np.mean(far, axis=0)
    assert lime_near > lime_far + 0.3
    assert lime_near > shap_near
    assert lime_far < shap_far


# -- ignorant -----------------------------------------------------------------------------------


def test_lime_and_shap_know_nothing_of_the_model_but_its_scores() -> None:
    """Two scores that agree on the words asked are explained alike, whatever they say of others."""
    word, hidden = np.array([2, 3, 4, 2, 3]), np.array([[3, 4, 2, 3, 4]])

    def score(words: np.ndarray) -> np.ndarray:
        return np.sin(words @ np.arange(1.0, 6.0))

    def other(words: np.ndarray) -> np.ndarray:
        known = ((words == word) | (words == hidden[0])).all(axis=1)
        return np.where(known, score(words), 1e6)

    for method in (lime, kernel_shap, permutation_shap, partition_shap, exact_shapley):
        one, two = (method(Game(s, word, hidden, on_both_scales)) for s in (score, other))
        assert one == pytest.approx(two, abs=1e-9), method


def test_an_interaction_leaves_no_trace_in_a_sum() -> None:
    """Parity of two symbols: each is needed, and no additive explanation can say so.

    Hidden alone each turns the value around, so that leave one out sees what Shapley values, which
    share the gain of the whole, and LIME's slopes cannot tell from a small sum.
    """
    keep = subsets(4)
    values = (keep[:, 0] == keep[:, 1]).astype(float)  # the other two are idle
    played = of_values(values)
    assert leave_one_out(played) == pytest.approx([1, 1, 0, 0])
    assert exact_shapley(played) == pytest.approx([0, 0, 0, 0])
    answers = np.stack([lime(played, 2000), exact_shapley(played)])
    sums = answers @ keep.T
    left = (values - sums).var(axis=1) / values.var()
    assert (left > 0.8).all()
