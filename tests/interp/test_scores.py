"""Scores of explanations against scikit-learn, brute force, an oracle and chance."""

from __future__ import annotations

from itertools import combinations, permutations
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, ndcg_score, roc_auc_score
from test_games import curve_by_hand, of_values

from interp.explanations.games import Game, exact_shapley, subsets
from interp.explanations.scores import (
    COSINES,
    FIT,
    HIDING,
    METRICS,
    RATIONALE,
    Truth,
    _any_order,
    against_rationale,
    agreement,
    by_hiding,
    chance,
    cosine,
    fit,
    verdict_of,
)
from interp.statistics import bootstrap_mean

Ranked = tuple[np.ndarray, np.ndarray]
LOWER = ("error", "sufficiency", "deletion")
"""Metrics of which a lower value is better."""


@st.composite
def ranked(draw: st.DrawFn, ties: bool = True, longest: int = 8) -> Ranked:
    """Values of both signs, and the positions that decide: at least one, and not all."""
    size = draw(st.integers(2, longest))
    if ties:
        level = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    else:
        signs = draw(st.lists(st.sampled_from([-1, 1]), min_size=size, max_size=size))
        level = np.multiply(signs, draw(st.permutations(range(1, size + 1))))
    decides = draw(st.permutations([True, False] + [draw(st.booleans()) for _ in range(size - 2)]))
    return np.array(level) * draw(st.sampled_from([1.0, 1e-4, 1 / 3])), np.array(decides)


def random_game(seed: int, size: int) -> Game:
    """Positions and pairs count, each by a random amount."""
    rng = np.random.default_rng(seed)
    one, two = rng.normal(size=size), rng.normal(size=(size, size)) / 2

    def score(words: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-words @ one - np.einsum("wi,ij,wj->w", words, two, words)))

    played = Game(score, np.ones(size, dtype=int), np.zeros((1, size), dtype=int))
    played.values()
    return played


def only(decides: np.ndarray) -> list[tuple[int, ...]]:
    """One set: the positions that are True."""
    return [tuple(np.flatnonzero(decides).tolist())]


# -- the rationale ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("ties", [True, False])
def test_ranks_are_scored_as_by_scikit_learn(ties: bool) -> None:
    @given(ranked(ties))
    def check(drawn: Ranked) -> None:
        values, decides = drawn
        found = against_rationale(values[None], only(decides))
        value = np.abs(values)
        expected = {
            "AUROC": roc_auc_score(decides, value),
            "average precision": average_precision_score(decides, value),
            "NDCG": ndcg_score([decides], [value]),
        }
        for name, score in expected.items():
            assert found[name] == pytest.approx(score, abs=1e-12), name

    check()


@given(ranked(longest=5))
def test_ties_are_broken_in_every_way(drawn: Ranked) -> None:
    """The first, and the first R: a mean over all orders that the values allow."""
    values, decides = drawn
    value, count = np.abs(values), decides.sum()
    hit, precision = [], []
    for broken in permutations(range(len(value))):
        order = np.lexsort((broken, -value))
        hit.append(decides[order[0]])
        precision.append(decides[order[:count]].mean())
    found = against_rationale(values[None], only(decides))
    assert found["hit@1"] == pytest.approx(np.mean(hit))
    assert found["R-precision"] == pytest.approx(np.mean(precision))
    mass = value[decides].sum() / value.sum() if value.any() else decides.mean()
    assert found["mass"] == pytest.approx(mass)


def test_methods_are_scored_on_their_own() -> None:
    values = np.random.default_rng(0).normal(size=(5, 6))
    decides = np.array([True, False, False, True, False, True])
    together = against_rationale(values, only(decides))
    for row in range(5):
        alone = against_rationale(values[[row]], only(decides))
        assert all(together[name][row] == pytest.approx(alone[name][0]) for name in RATIONALE)


def test_rounding_is_a_tie() -> None:
    values = np.array([[0.1 + 0.2, 0.3], [0.3, 0.3 + 1e-4]])
    found = against_rationale(values, [[1]])
    assert found["AUROC"].tolist() == [0.5, 1.0]


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_chance_is_the_mean_over_all_orders(size: int) -> None:
    values = np.array(list(permutations(range(1, size + 1))), dtype=float)
    for count in range(1, size):
        found = against_rationale(values, [range(count)])
        expected = {name: value.mean() for name, value in found.items()}
        assert chance(size, [range(count)]) == pytest.approx(expected, abs=1e-12)


@given(ranked())
def test_the_oracle_scores_one(drawn: Ranked) -> None:
    _, decides = drawn
    found = against_rationale(decides[None].astype(float), only(decides))
    assert {name: found[name][0] for name in RATIONALE} == pytest.approx(dict.fromkeys(found, 1.0))
    turned = against_rationale(1.0 - decides[None], only(decides))
    assert turned["AUROC"] == turned["hit@1"] == turned["mass"] == 0


@given(ranked())
def test_what_knows_nothing_is_all_ties(drawn: Ranked) -> None:
    _, decides = drawn
    found = against_rationale(np.zeros((1, len(decides))), only(decides))
    expected = chance(len(decides), only(decides)) | {"average precision": decides.mean()}
    assert {name: found[name][0] for name in RATIONALE} == pytest.approx(expected)


@pytest.mark.parametrize("decides", [[True] * 3, [False] * 3, [True], [False]])
def test_there_is_no_rank_where_all_or_none_decide(decides: list[bool]) -> None:
    values = np.random.default_rng(0).normal(size=(2, len(decides)))
    sets = only(decides)
    found = against_rationale(values, sets)
    assert list(found) == list(chance(len(decides), sets)) == list(RATIONALE)
    assert np.isnan(list(found.values())).all()
    assert np.isnan(list(chance(len(decides), sets).values())).all()
    assert np.isnan(list(against_rationale(values, ()).values())).all()


# -- several rationales -------------------------------------------------------------------------


@st.composite
def several(draw: st.DrawFn) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Values, and sets of positions of one size."""
    size = draw(st.integers(3, 6))
    count = draw(st.integers(1, size - 1))
    every = list(combinations(range(size), count))
    sets = draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True))
    level = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    return np.array(level, dtype=float), sets


@given(several())
def test_a_method_is_held_against_the_set_that_suits_it_best(
    drawn: tuple[np.ndarray, list[tuple[int, ...]]],
) -> None:
    values, sets = drawn
    found = against_rationale(values[None], sets)
    each = [against_rationale(values[None], [one]) for one in sets]
    best = max(float(one["AUROC"][0]) for one in each)
    assert found["AUROC"][0] == pytest.approx(best)
    # All metrics are of one and the same set.
    numbers = [np.array([one[name][0] for name in RATIONALE]) for one in each]
    mine = np.array([found[name][0] for name in RATIONALE])
    assert any(mine == pytest.approx(one) for one in numbers)


@given(several(), st.randoms(use_true_random=False))
def test_weight_on_any_one_full_set_gets_full_marks(
    drawn: tuple[np.ndarray, list[tuple[int, ...]]], random: Random
) -> None:
    """Of any amount, and of either sign; half a set does not."""
    values, sets = drawn
    chosen = list(random.choice(sets))
    alone = np.zeros((1, len(values)))
    alone[0, chosen] = [random.choice((-1, 1)) * random.uniform(0.1, 1) for _ in chosen]
    found = against_rationale(alone, sets)
    assert {name: each[0] for name, each in found.items()} == pytest.approx(
        dict.fromkeys(RATIONALE, 1.0)
    )
    outside = [i for i in range(len(values)) if not any(i in one for one in sets)]
    if outside:
        wrong = np.zeros((1, len(values)))
        wrong[0, outside] = 1.0
        assert against_rationale(wrong, sets)["AUROC"][0] < 0.5


def test_chance_is_higher_where_several_sets_are_right() -> None:
    """One of two of three places: the best of two ranks. By all orders, 5/6 of 1 and 1/6 of 0.5."""
    orders = np.array(list(permutations((1.0, 2.0, 3.0))))
    expected = {n: v.mean() for n, v in against_rationale(orders, [[0], [1]]).items()}
    assert expected["AUROC"] == pytest.approx((2 / 3) * 1 + (1 / 3) * 0.5)
    found = chance(3, [[0], [1]])
    assert found["AUROC"] == pytest.approx(expected["AUROC"], abs=0.02)
    assert found["hit@1"] == pytest.approx(expected["hit@1"], abs=0.05)


# -- near and far -------------------------------------------------------------------------------


def test_a_sum_fits_everywhere_and_a_wrong_slope_counts_as_minus_one() -> None:
    weights = np.array([0.5, -1.0, 2.0, 0.0])
    played = subsets(4) @ weights + 3
    values = np.stack([weights, -9 * weights, 0 * weights])
    found = fit(values, np.stack([played] * 3))
    assert found["fit near"].tolist() == pytest.approx([1, -1, 0])
    assert found["fit far"].tolist() == pytest.approx([1, -1, 0])
    assert np.isnan(fit(values[:1], np.full((1, 16), 0.3))["fit near"]).all()


def test_the_regions_are_a_third_of_the_positions() -> None:
    """A game that is a sum while at most two of six are hidden, and another sum elsewhere."""
    one, other = np.random.default_rng(0).normal(size=(2, 6))
    keep = subsets(6)
    near = keep.sum(axis=1) >= 4
    played = np.where(near, keep @ one, keep @ other + 1)
    found = fit(np.stack([one, other]), np.stack([played, played]))
    assert found["fit near"][0] == pytest.approx(1)
    assert found["fit far"][1] == pytest.approx(1)
    assert max(found["fit near"][1], found["fit far"][0]) < 0.9


# -- Shapley values -----------------------------------------------------------------------------


def test_cosine_is_of_the_angle() -> None:
    truth = np.array([3.0, 4.0, 0.0])
    values = np.array([[6, 8, 0], [-3, -4, 0], [4, -3, 7], [0, 0, 0], [0, 1, 0]]) * 1.0
    assert cosine(values, truth) == pytest.approx([1, -1, 0, 0, 0.8])
    assert np.isnan(cosine(values, None)).all()
    assert np.isnan(cosine(values, np.zeros(3))).all()


# -- hiding -------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [True, False])
def test_hiding_is_that_of_a_loop(accepted: bool) -> None:
    """The model's verdict is followed, be it "in the language" or not."""
    played = random_game(3 if accepted else 0, 5)
    assert verdict_of(played) == accepted
    values = np.random.default_rng(1).normal(size=(4, 5))
    found, asked = by_hiding(values, played), played.calls
    for row, value in enumerate(values):
        order = tuple(np.argsort(-value).tolist())
        hidden, shown = (np.array(curve_by_hand(played, order, show)) for show in (False, True))
        if not accepted:
            hidden, shown = 1 - hidden, 1 - shown
        expected = {
            "comprehensiveness": np.mean([hidden[0] - p for p in hidden[1:]]),
            "sufficiency": np.mean([hidden[0] - p for p in shown[1:]]),
            "insertion": shown.mean(),
            "deletion": hidden.mean(),
        }
        for name, score in expected.items():
            assert found[name][row] == pytest.approx(score, abs=1e-12), name
    played.calls = asked
    by_hiding(values, played)
    _any_order(played)
    assert verdict_of(played) == accepted
    assert played.calls == asked  # judging costs nothing


@pytest.mark.parametrize("seed", range(6))
def test_of_all_orders_the_best_scores_one_and_the_worst_none(seed: int) -> None:
    played = random_game(seed, 5)
    values = np.array(list(permutations(range(5))), dtype=float)
    found = by_hiding(values, played)
    area = found["deletion"]
    scaled = (area.max() - area) / (area.max() - area.min())
    assert found["normalised AOPC"] == pytest.approx(scaled, abs=1e-9)
    expected = {name: found[name].mean() for name in HIDING}
    assert _any_order(played) == pytest.approx(expected, abs=1e-9)


def test_equal_values_are_hidden_in_a_drawn_order() -> None:
    played = random_game(2, 5)
    equal = np.array([[1.0] * 5, [1 / 3] * 5])
    found = {seed: by_hiding(equal, played, seed)["deletion"] for seed in range(40)}
    assert all(area[0] == area[1] for area in found.values())
    assert by_hiding(equal, played, 7)["deletion"] == pytest.approx(found[7], abs=0)
    areas = [area[0] for area in found.values()]
    assert len({round(area, 9) for area in areas}) > 10
    assert _any_order(played)["deletion"] == pytest.approx(np.mean(areas), abs=0.05)


def test_a_long_word_has_no_best_order() -> None:
    played = Game(
        lambda words: words.mean(axis=1), np.ones(14, dtype=int), np.zeros((1, 14), dtype=int)
    )
    values = np.arange(14.0)[None]
    found = by_hiding(values, played)
    assert found["deletion"] == pytest.approx(0.5)
    assert np.isnan(found["normalised AOPC"]).all()
    assert np.isnan(list(_any_order(played).values())).all()


# -- all together -------------------------------------------------------------------------------


def test_the_truth_is_its_own_best_explanation() -> None:
    """Both verdicts; the language's own values beside themselves, doubled, turned and nothing."""
    verdicts = set()
    for seed in range(8):
        played = random_game(seed, 4)
        exact = exact_shapley(played)
        verdicts.add(verdict_of(played))
        values = np.stack([exact, 2 * exact, -exact, 0 * exact])
        truth = Truth(((0, 2),), exact, exact)
        table = agreement(values, np.ones(4, dtype=bool), played, truth, exact)
        assert list(table.columns) == [name for name in METRICS if name not in FIT]
        for name in COSINES:
            assert table[name].tolist() == pytest.approx([1, 1, -1, 0, 0])
        errors = np.array([0, 1, 2, 1]) * np.abs(exact).mean()
        assert table["error"][:4].to_numpy() == pytest.approx(errors)
        assert np.isnan(table["error"][4])
    assert verdicts == {True, False}


def test_values_without_a_sign_speak_for_the_verdict() -> None:
    """Of a word that is out, signed values count the other way round."""
    played = random_game(0, 4)
    assert not verdict_of(played)
    exact = exact_shapley(played)
    values = np.stack([exact, -exact, -exact])
    table = agreement(values, np.array([True, True, False]), played, Truth(((1,),)), exact)
    assert table["cosine to the model"].tolist() == pytest.approx([1, -1, 1, 0])
    assert table["deletion"][0] == table["deletion"][2] < table["deletion"][1]
    assert table["cosine to the language"].isna().all()


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_where_no_symbol_matters_no_order_is_better(value: float) -> None:
    played = of_values(np.full(16, value))
    exact = exact_shapley(played)
    values = np.array([[0.0] * 4, [1.0, 2.0, -3.0, 0.0]])
    truth = Truth(None, exact, exact)
    table = agreement(values, np.ones(2, dtype=bool), played, truth, exact)
    empty = [*RATIONALE, *COSINES, "normalised AOPC"]
    assert table[empty].isna().all(axis=None)
    for name in ("comprehensiveness", "sufficiency"):
        assert table[name].to_numpy() == pytest.approx(0, abs=1e-12)
    assert table["insertion"].to_numpy() == pytest.approx(max(value, 1 - value))


@pytest.mark.slow
def test_random_values_sit_at_chance_in_every_metric() -> None:
    """Within the 95% interval of their distance from the chance row; the oracle and the exact
    values do not."""
    chances = []
    for seed in range(400):
        rng = np.random.default_rng([7, seed])
        size = int(rng.integers(3, 8))
        played = random_game(seed, size)
        exact, truth = exact_shapley(played), exact_shapley(random_game(seed + 1000, size))
        rationale = tuple(rng.permutation(size)[: rng.integers(1, size)].tolist())
        oracle = np.isin(np.arange(size), rationale).astype(float)
        values = np.stack([rng.normal(size=size), oracle, exact])
        signed = np.array([True, False, True])
        known = Truth((rationale,), rng.normal(size=size), truth)
        table = agreement(values, signed, played, known, exact, seed)
        chances.append((table.iloc[:3] - table.iloc[3]).drop(columns="error").to_numpy())
    names = [name for name in METRICS if name not in ("error", *FIT)]
    distance = np.array(chances)
    assert np.isfinite(distance).all()
    _, low, high = bootstrap_mean(distance)
    for column, name in enumerate(names):
        assert low[0, column] < 0 < high[0, column], name
        if name in RATIONALE:
            assert low[1, column] > 0, name
        elif name not in COSINES[:2]:
            better = -1 if name in LOWER else 1
            assert min(better * low[2, column], better * high[2, column]) > 0, name
