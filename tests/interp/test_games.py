"""Games: exact Shapley values and curves against brute force over all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from interp.explanations.games import (
    EXACT_LIMIT,
    Game,
    curve,
    exact_shapley,
    extreme_curves,
    mean_curve,
    subsets,
)
from interp.explanations.interventions import leave_one_out
from interp.explanations.shap_import import shap

Score = Callable[[np.ndarray], np.ndarray]
Order = tuple[int, ...]

VALUES = st.integers(1, 4).flatmap(
    lambda size: arrays(np.float64, 2**size, elements=st.integers(-8, 8).map(lambda x: x / 4))
)
"""Of all coalitions of one to four positions; coarse, so that there are ties."""


def tangled(words: np.ndarray) -> np.ndarray:
    """A score in which every position matters and neighbours act together, in (0, 1)."""
    weights = np.random.default_rng(9).normal(size=words.shape[1])
    pairs = (words[:, 1:] == words[:, :-1]).sum(axis=1) if words.shape[1] > 1 else 0
    return 1 / (1 + np.exp(-(words @ weights) / 4 - pairs))


def game(size: int, draws: int = 3, score: Score = tangled) -> Game:
    rng = np.random.default_rng(size)
    word = rng.integers(2, 5, size)
    return Game(score, word, rng.integers(2, 5, (draws, size)))


def of_values(values: np.ndarray) -> Game:
    """The game with these values: every position is kept (1) or hidden (0)."""
    size = len(values).bit_length() - 1

    def score(words: np.ndarray) -> np.ndarray:
        value: np.ndarray = values[words @ 2 ** np.arange(size)]
        return value

    return Game(score, np.ones(size, dtype=int), np.zeros((1, size), dtype=int))


def gains(played: Game, orders: Iterable[Order]) -> np.ndarray:
    """The mean gain of each position over some orders in which positions are shown."""
    rows = []
    for order in orders:
        value = curve_by_hand(played, order, show=True)
        row = np.empty(len(order))
        row[list(order)] = np.diff(value)
        rows.append(row)
    return np.mean(rows, axis=0)


def curve_by_hand(played: Game, order: Order, show: bool) -> list[float]:
    keep = np.full(len(order), not show)
    values = [played(keep[None])[0]]
    for position in order:
        keep[position] = show
        values.append(played(keep[None])[0])
    return values


# -- the game -----------------------------------------------------------------------------------


def test_a_hidden_symbol_is_replaced_at_constant_length() -> None:
    seen = []

    def score(words: np.ndarray) -> np.ndarray:
        seen.append(words.copy())
        return words.sum(axis=1).astype(float)

    word, other = np.array([2, 3, 4]), np.array([[7, 8, 9], [70, 80, 90]])
    played = Game(score, word, other)
    keep = np.array([[True, True, True], [True, False, True], [False, False, False]])
    values = played(keep)
    assert seen[0].tolist() == [
        *([2, 3, 4], [2, 3, 4]),
        *([2, 8, 4], [2, 80, 4]),
        *([7, 8, 9], [70, 80, 90]),
    ]
    assert values.tolist() == [9, (14 + 86) / 2, (24 + 240) / 2]
    assert played.calls == 6


def test_the_bits_of_a_coalition_are_its_positions() -> None:
    keep = subsets(3)
    assert keep[0b110].tolist() == [False, True, True]
    assert len({tuple(row) for row in keep.tolist()}) == len(keep) == 8
    values = np.random.default_rng(0).normal(size=8)
    assert of_values(values).values() == pytest.approx(values, abs=0)


def test_what_is_remembered_is_what_is_asked() -> None:
    """Of every question, in values and in calls; but the score is not asked again."""
    knows = game(6)
    knows.values()
    assert knows.remembers
    fresh = knows.fresh()
    assert not fresh.remembers
    assert fresh.calls == 0

    def refuse(words: np.ndarray) -> np.ndarray:
        raise AssertionError("asked again")

    knows.score = refuse
    some = np.random.default_rng(0).random((40, 6)) < 0.5
    orders = np.array([[5, 3, 1, 0, 2, 4], [0, 1, 2, 3, 4, 5]])
    questions: list[Callable[[Game], np.ndarray]] = [
        lambda g: g(some),
        lambda g: curve(g, orders, show=True),
        leave_one_out,
        exact_shapley,
    ]
    for ask in questions:
        before = knows.calls, fresh.calls
        assert not fresh.remembers
        assert ask(knows) == pytest.approx(ask(fresh), abs=1e-15)
        assert knows.calls - before[0] == fresh.calls - before[1] > 0


# -- exact values -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
def test_exact_values_are_those_of_all_orderings(size: int) -> None:
    played = game(size)
    expected = gains(played, permutations(range(size)))
    assert exact_shapley(played) == pytest.approx(expected, abs=1e-12)
    assert np.abs(expected).max() > 0.01


@pytest.mark.slow
@given(VALUES)
def test_exact_values_of_any_game_are_those_of_all_orderings(values: np.ndarray) -> None:
    played = of_values(values)
    orders = permutations(range(len(played.word)))
    assert exact_shapley(played) == pytest.approx(gains(played, orders), abs=1e-12)


@pytest.mark.parametrize("size", [8, 10])
def test_exact_values_are_those_of_shap(size: int) -> None:
    played = game(size)
    masker = shap().maskers.Independent(np.zeros((1, size)))
    explainer = shap().ExactExplainer(lambda keep: played(keep > 0.5), masker)
    found = explainer(np.ones((1, size)), max_evals=2**size, silent=True)
    assert exact_shapley(played) == pytest.approx(found.values[0], abs=1e-8)


@pytest.mark.parametrize("size", [3, EXACT_LIMIT])
def test_exact_values_share_out_the_whole_gain(size: int) -> None:
    played = game(size, draws=1)
    full, empty = played(np.stack([np.ones(size, dtype=bool), np.zeros(size, dtype=bool)]))
    assert exact_shapley(played).sum() == pytest.approx(full - empty, abs=1e-12)


def test_in_a_sum_every_position_earns_its_own() -> None:
    weights = np.array([0.5, -2.0, 0.0, 1.0])
    word, hidden = np.array([4, 3, 2, 4]), np.array([[2, 2, 3, 3], [4, 4, 4, 2]])
    own = weights * (word - hidden.mean(axis=0))
    played = Game(lambda words: words @ weights, word, hidden)
    assert exact_shapley(played) == pytest.approx(own)
    assert leave_one_out(played.fresh()) == pytest.approx(own)


def test_a_position_that_never_matters_gets_nothing() -> None:
    played = game(5, score=lambda words: (words[:, 0] * words[:, 4]).astype(float))
    assert exact_shapley(played)[1:4] == pytest.approx(np.zeros(3), abs=1e-12)


def test_one_left_out_is_the_last_step_to_the_whole() -> None:
    """Not the first: the game is not a sum."""
    played = game(5)
    for position, value in enumerate(leave_one_out(played)):
        others = tuple(i for i in range(5) if i != position)
        steps = np.diff(curve_by_hand(played, (*others, position), show=True))
        assert value == pytest.approx(steps[-1], abs=1e-15)
        first = np.diff(curve_by_hand(played, (position, *others), show=True))[0]
        assert value != pytest.approx(first)


def test_a_long_word_is_refused() -> None:
    for ask in (exact_shapley, Game.values):
        with pytest.raises(ValueError, match=r"13 symbols make 2\^13 coalitions: explain at most"):
            ask(game(EXACT_LIMIT + 1))


# -- curves -------------------------------------------------------------------------------------


@pytest.mark.parametrize("show", [True, False])
def test_a_curve_is_that_of_a_loop(show: bool) -> None:
    played, orders = game(4), list(permutations(range(4)))
    expected = [curve_by_hand(played, order, show) for order in orders]
    assert curve(played, np.array(orders), show) == pytest.approx(np.array(expected), abs=1e-15)
    one = curve(played, np.array([2, 0, 3, 1]), show)
    assert one == pytest.approx(curve_by_hand(played, (2, 0, 3, 1), show), abs=1e-15)


def check_all_orders(played: Game) -> None:
    size = len(played.word)
    orders = np.array(list(permutations(range(size))))
    values = played.values()
    shown = curve(played, orders, show=True)
    areas = shown.mean(axis=1)
    assert extreme_curves(values) == pytest.approx((areas.min(), areas.max()), abs=1e-12)
    assert mean_curve(values) == pytest.approx(shown.mean(axis=0), abs=1e-12)
    hidden = curve(played, orders, show=False)
    assert (hidden.mean(axis=1).min(), hidden.mean(axis=1).max()) == pytest.approx(
        extreme_curves(values), abs=1e-12
    )


@pytest.mark.slow
@given(VALUES)
def test_extreme_and_mean_curves_of_any_game_are_those_of_all_orders(values: np.ndarray) -> None:
    check_all_orders(of_values(values))


def test_extreme_and_mean_curves_are_those_of_all_orders() -> None:
    check_all_orders(game(6))
    least, most = extreme_curves(game(6).values())
    assert most - least > 0.1
