"""LIME and SHAP against exact values and closed forms, and without their libraries' traps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
from test_games import gains, game

from interp.explanations.games import Game, exact_shapley
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)
from models.languages import LabelledCorpus, language

Explain = Callable[..., np.ndarray]

SAMPLING: list[Explain] = [lime, kernel_shap, permutation_shap]
LIME_AND_SHAP: list[Explain] = [*SAMPLING, partition_shap, shap_exact]


@pytest.mark.parametrize("size", [1, 2, 8])
def test_the_kernel_is_exact_where_it_can_try_all(size: int) -> None:
    played = game(size)
    assert kernel_shap(played, samples=512) == pytest.approx(exact_shapley(played), abs=1e-6)


def test_the_kernel_asks_at_least_about_every_position_alone() -> None:
    """A sum is then found exactly; with fewer samples the library's equation is singular."""
    weights = np.random.default_rng(12).normal(size=12)
    played = game(12, draws=1, score=lambda words: words @ weights)
    found = kernel_shap(played, samples=16)
    assert found == pytest.approx(weights * (played.word - played.replacements[0]), abs=1e-9)


def test_the_kernel_is_close_where_it_samples() -> None:
    """With its defaults the library drops two of twelve features: correlation 0.75."""
    played = game(12, draws=1)
    played.replacements = (played.word[None] - 1) % 3 + 2  # another symbol everywhere
    exact, sampled = exact_shapley(played), kernel_shap(played, samples=1024)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.99
    assert np.count_nonzero(exact) == np.count_nonzero(sampled) == 12
    full, empty = played(np.stack([np.ones(12, dtype=bool), np.zeros(12, dtype=bool)]))
    assert sampled.sum() == pytest.approx(full - empty, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_one_order_and_back_is_exact_for_pairs(size: int) -> None:
    """With fewer samples than one order needs, one is still walked."""
    rng = np.random.default_rng(size)
    one, two = rng.normal(size=size), rng.normal(size=(size, size))

    def pairs(words: np.ndarray) -> np.ndarray:
        value: np.ndarray = words @ one + np.einsum("wi,ij,wj->w", words, two, words)
        return value

    played = game(size, score=pairs)
    found = permutation_shap(played.fresh(), samples=1)
    assert found == pytest.approx(exact_shapley(played), abs=1e-9)


def test_many_orders_come_close_to_all() -> None:
    played = game(4, score=lambda words: (words == [2, 3, 4, 2]).all(axis=1).astype(float))
    played.word, played.replacements = np.array([2, 3, 4, 2]), np.array([[3, 4, 2, 3]])
    assert exact_shapley(played) == pytest.approx(np.full(4, 0.25))
    errors = [np.abs(permutation_shap(played, samples=n) - 0.25).max() for n in (9, 9000)]
    assert errors[1] < 0.02 < errors[0]


Tree = tuple["Tree", "Tree"] | int


def orders_of(tree: Tree) -> list[tuple[int, ...]]:
    """All orders in which a group's members follow each other."""
    if isinstance(tree, int):
        return [(tree,)]
    halves = list(product(orders_of(tree[0]), orders_of(tree[1])))
    return [x + y for x, y in halves] + [y + x for x, y in halves]


@pytest.mark.parametrize(
    "tree", [(0, 1), ((0, 1), (2, 3)), (((0, 1), (2, 3)), ((4, 5), (6, 7)))], ids=["2", "4", "8"]
)
def test_the_partition_gives_owen_s_values(tree: Tree) -> None:
    """Mean gains over the orders that keep neighbours together (Owen 1977)."""
    orders = orders_of(tree)
    size = len(orders[0])
    played = game(size)
    expected = gains(played, orders)
    assert partition_shap(played) == pytest.approx(expected, abs=1e-9)
    assert size == 2 or expected != pytest.approx(exact_shapley(played), abs=1e-3)


@pytest.mark.parametrize("size", [1, 3, 11, 20])
def test_the_partition_shares_out_the_whole_gain(size: int) -> None:
    played = game(size)
    full, empty = played(np.stack([np.ones(size, dtype=bool), np.zeros(size, dtype=bool)]))
    assert partition_shap(played, samples=64).sum() == pytest.approx(full - empty, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 12])
def test_shap_s_exact_values_are_ours(size: int) -> None:
    played = game(size)
    assert shap_exact(played.fresh()) == pytest.approx(exact_shapley(played), abs=1e-8)
    with pytest.raises(ValueError, match="13 symbols: explain at most 12"):
        shap_exact(game(13))


# -- the libraries' traps -----------------------------------------------------------------------


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


@pytest.mark.parametrize("method", LIME_AND_SHAP)
def test_no_method_changes_the_length_of_a_line(method: Explain) -> None:
    """Lines of a labelled corpus; what hides a word is a word, and none is joined or split."""
    grammar = language("dieren")
    sample = grammar.sample(np.random.default_rng(0), 40, range(4, 9))
    words = [
        grammar.vocabulary.decode(ids[:length])
        for ids, length in zip(sample.words.ids, sample.words.lengths, strict=True)
    ]
    corpus = LabelledCorpus("lines", ["+" if label else "-" for label in sample.labels], words)
    known = corpus.vocabulary.words(words)
    for ids, length in zip(known.ids[:10], known.lengths[:10], strict=True):
        word = ids[:length]
        others = known.ids[known.lengths == length, :length][:2]
        asked: list[np.ndarray] = []

        def score(words: np.ndarray, asked: list[np.ndarray] = asked) -> np.ndarray:
            asked.append(words)
            return (words % 3 == 0).mean(axis=1)

        found = (
            method(Game(score, word, others), samples=40)
            if method in SAMPLING
            else method(Game(score, word, others))
        )
        assert found.shape == word.shape
        seen = np.concatenate(asked)  # all of one length, or this fails
        assert seen.shape[1] == length
        assert ((seen == word) | (seen[:, None] == others).any(axis=1)).all()
        assert (seen == word).all(axis=1).any()


@pytest.fixture
def global_state() -> Iterator[None]:
    """numpy's, set to something of its own, and found untouched."""
    np.random.seed(123)
    before = np.random.get_state()
    yield
    after = np.random.get_state()
    assert before[0] == after[0]
    assert (before[1] == after[1]).all()
    assert before[2:] == after[2:]


@pytest.mark.parametrize("method", SAMPLING)
@pytest.mark.usefixtures("global_state")
def test_a_seed_decides_and_the_global_state_stays(method: Explain) -> None:
    first = method(game(12), samples=300, seed=1)
    state = np.random.get_state()
    np.random.seed(321)
    assert method(game(12), samples=300, seed=1) == pytest.approx(first, abs=0)
    assert method(game(12), samples=300, seed=2) != pytest.approx(first, abs=1e-6)
    np.random.set_state(state)


@pytest.mark.usefixtures("global_state")
def test_the_partition_hangs_on_no_seed() -> None:
    """Where the samples do not reach all groups, and many groups gain alike."""
    state, found = np.random.get_state(), []
    played = game(20, score=lambda words: (words == 3).sum(axis=1) % 2 / 1.0)
    for seed in range(4):
        np.random.seed(seed)
        found.append(partition_shap(played, samples=30))
    np.random.set_state(state)
    found.append(partition_shap(played, samples=30))
    assert all(values == pytest.approx(found[0], abs=0) for values in found)


@pytest.mark.parametrize("method", [kernel_shap, permutation_shap, partition_shap])
@pytest.mark.usefixtures("global_state")
def test_an_error_leaves_the_global_state_alone_too(method: Explain) -> None:
    def broken(words: np.ndarray) -> np.ndarray:
        if len(words) > 1:
            raise RuntimeError("no")
        return np.zeros(len(words))

    with pytest.raises(RuntimeError, match="no"):
        method(game(6, draws=1, score=broken))
