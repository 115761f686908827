"""LIME and SHAP on games whose Shapley values are known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from interp.attribution import (
    EXACT_LIMIT,
    Game,
    agreement,
    exact_shapley,
    explain,
    kernel_shap,
    lime,
    position_scores,
    random_scores,
)

Score = Callable[[np.ndarray], np.ndarray]


def tangled(words: np.ndarray) -> np.ndarray:
    """A score in which every position matters and neighbours act together, in (0, 1)."""
    weights = np.random.default_rng(9).normal(size=words.shape[1])
    pairs = (words[:, 1:] == words[:, :-1]).sum(axis=1) if words.shape[1] > 1 else 0
    return 1 / (1 + np.exp(-(words @ weights) / 4 - pairs))


def game(size: int, draws: int = 3, score: Score = tangled) -> Game:
    rng = np.random.default_rng(size)
    word = rng.integers(2, 5, size)
    return Game(score, word, rng.integers(2, 5, (draws, size)))


def shapley_by_orderings(value: Callable[[np.ndarray], float], size: int) -> np.ndarray:
    """The mean gain of a position over all orders in which positions can be shown."""
    phi, orders = np.zeros(size), list(permutations(range(size)))
    for order in orders:
        keep = np.zeros(size, dtype=bool)
        before = value(keep)
        for position in order:
            keep[position] = True
            after = value(keep)
            phi[position] += after - before
            before = after
    return phi / len(orders)


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


# -- exact values -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
def test_exact_values_are_those_of_all_orderings(size: int) -> None:
    played = game(size)
    expected = shapley_by_orderings(lambda keep: played(keep[None])[0], size)
    assert exact_shapley(played) == pytest.approx(expected, abs=1e-12)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("size", [3, EXACT_LIMIT])
def test_exact_values_share_out_the_whole_gain(size: int) -> None:
    played = game(size, draws=1)
    full, empty = played(np.stack([np.ones(size, dtype=bool), np.zeros(size, dtype=bool)]))
    assert exact_shapley(played).sum() == pytest.approx(full - empty, abs=1e-12)


def test_in_a_sum_every_position_earns_its_own() -> None:
    weights = np.array([0.5, -2.0, 0.0, 1.0])
    word, hidden = np.array([4, 3, 2, 4]), np.array([[2, 2, 3, 3]])
    played = Game(lambda words: words @ weights, word, hidden)
    assert exact_shapley(played) == pytest.approx(weights * (word - hidden[0]))


def test_a_position_that_never_matters_gets_nothing() -> None:
    played = game(5, score=lambda words: (words[:, 0] * words[:, 4]).astype(float))
    assert exact_shapley(played)[1:4] == pytest.approx(np.zeros(3), abs=1e-12)


def test_a_long_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"13 symbols make 2\^13 coalitions: explain at most 12"):
        exact_shapley(game(EXACT_LIMIT + 1))


# -- approximations -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_kernel_is_exact_where_it_can_try_all(size: int) -> None:
    played = game(size)
    assert kernel_shap(played, samples=512) == pytest.approx(exact_shapley(played), abs=1e-6)


def test_the_kernel_is_close_where_it_samples() -> None:
    """With its defaults the library drops two of twelve features: correlation 0.75."""
    played = game(12, draws=1)
    played.replacements = (played.word[None] - 1) % 3 + 2  # another symbol everywhere
    exact, sampled = exact_shapley(played), kernel_shap(played, samples=1024)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.99
    assert np.count_nonzero(exact) == np.count_nonzero(sampled) == 12
    full, empty = played(np.stack([np.ones(12, dtype=bool), np.zeros(12, dtype=bool)]))
    assert sampled.sum() == pytest.approx(full - empty, abs=1e-9)


def test_lime_has_a_feature_for_every_position_of_a_word_of_equal_symbols() -> None:
    """With its defaults the library would find two features in aaabbb, and change the length."""
    lengths = set()
    weights = np.array([1.0, 2.0, 3.0, -3.0, -2.0, -1.0]) / 20

    def score(words: np.ndarray) -> np.ndarray:
        lengths.add(words.shape[1])
        return 0.5 + (words == 2) @ weights[: words.shape[1]]

    word = np.array([2, 2, 2, 2, 2, 2])
    played = Game(score, word, np.full((1, 6), 3))
    found = lime(played, samples=2000)
    assert lengths == {6}
    assert found.shape == (6,)
    assert found == pytest.approx(weights, abs=0.01)  # a linear game is its own surrogate


def test_lime_finds_the_positions_that_matter() -> None:
    played = game(10, score=lambda words: 0.2 * (words[:, 2] == words[:, 7]) + 0.3)
    played.word[[2, 7]] = 4
    found = np.abs(lime(played, samples=1000))
    assert set(np.argsort(found)[-2:]) == {2, 7}


@pytest.mark.parametrize("method", [lime, kernel_shap])
def test_a_seed_decides_and_the_global_state_stays(method: Callable[..., np.ndarray]) -> None:
    np.random.seed(123)
    state = np.random.get_state()
    first = method(game(12), samples=300, seed=1)
    after = np.random.get_state()
    assert state[0] == after[0]
    assert (state[1] == after[1]).all()
    assert state[2:] == after[2:]
    np.random.seed(321)
    assert method(game(12), samples=300, seed=1) == pytest.approx(first, abs=0)
    assert method(game(12), samples=300, seed=2) != pytest.approx(first, abs=1e-6)


def test_an_error_leaves_the_global_state_alone_too() -> None:
    def broken(words: np.ndarray) -> np.ndarray:
        if len(words) > 1:
            raise RuntimeError("no")
        return np.zeros(len(words))

    before = np.random.get_state()[1].copy()
    with pytest.raises(RuntimeError, match="no"):
        kernel_shap(game(6, draws=1, score=broken))
    assert (np.random.get_state()[1] == before).all()


def test_controls() -> None:
    played = game(7)
    assert position_scores(played).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert random_scores(played, 1) == pytest.approx(random_scores(played, 1))
    assert random_scores(played, 1) != pytest.approx(random_scores(played, 2))
    assert played.calls == 0


# -- the table ----------------------------------------------------------------------------------


def test_explain_runs_every_method() -> None:
    played, truth = game(5), game(5, score=lambda words: words[:, 0].astype(float))
    table = explain(played, truth, samples=64)
    methods = ["LIME", "SHAP kernel", "random", "position", "Shapley exact", "language"]
    assert table["method"].unique().tolist() == methods
    assert table.groupby("method")["position"].apply(list).map(lambda p: p == [0, 1, 2, 3, 4]).all()
    by = dict(list(table.groupby("method")))
    assert by["Shapley exact"]["value"].to_numpy() == pytest.approx(exact_shapley(game(5)))
    assert by["language"]["value"].to_numpy() == pytest.approx(exact_shapley(truth))
    assert set(by["Shapley exact"]["calls"]) == {3 * 2**5}
    assert set(by["LIME"]["calls"]) == {3 * 64}
    assert set(by["random"]["calls"]) == set(by["position"]["calls"]) == {0}
    assert (table["seconds"] >= 0).all()


def test_explain_leaves_out_what_cannot_be_exact() -> None:
    long = explain(game(EXACT_LIMIT + 1), game(EXACT_LIMIT + 1), samples=64)
    assert set(long["method"]) == {"LIME", "SHAP kernel", "random", "position"}
    assert "language" not in set(explain(game(4), None, samples=64)["method"])


def test_agreement_scores_each_method() -> None:
    values = {
        "Shapley exact": [0.1, -0.9, 0.3, 0.0],
        "language": [0.0, 1.0, 0.0, 0.0],
        "LIME": [0.2, -1.8, 0.6, 0.0],
        "flat": [0.5, 0.5, 0.5, 0.5],
    }
    rows = [
        {"method": m, "position": p, "value": v, "calls": 7, "seconds": 0.5}
        for m, line in values.items()
        for p, v in enumerate(line)
    ]
    scores = agreement(pd.DataFrame(rows), (1, 3)).set_index("method")
    decides = [0, 1, 0, 1]
    for method, line in values.items():
        expected = roc_auc_score(decides, np.abs(line))
        assert scores.loc[method, "auroc"] == pytest.approx(expected)
    exact, truth = values["Shapley exact"], values["language"]
    assert scores.loc["LIME", "correlation"] == pytest.approx(1.0)
    assert scores.loc["LIME", "correlation_to_language"] == pytest.approx(
        np.corrcoef(exact, truth)[0, 1]
    )
    assert np.isnan(scores.loc["flat", "correlation"])
    assert (scores["calls"] == 7).all()
    assert (scores["seconds"] == 0.5).all()


@pytest.mark.parametrize("rationale", [None, (), (0, 1, 2)])
def test_there_is_no_rank_where_all_or_none_decide(rationale: tuple[int, ...] | None) -> None:
    table = explain(game(3), None, samples=64)
    assert agreement(table, rationale)["auroc"].isna().all()
    assert agreement(table, rationale)["correlation_to_language"].isna().all()
