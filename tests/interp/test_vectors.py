"""Counts by hand, word2vec against its loss and its known optimum, analogies that must be right."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from interp.vectors.analogies import Analogy, answer, ranked, right, unit
from interp.vectors.counts import cooccurrences, pairs, pmi, ppmi_vectors
from interp.vectors.word2vec import Method, expected_loss, word2vec

TEXT = [np.array(s) for s in ([0, 1, 2, 1], [3, 0], [2], [1, 3, 0, 2, 2])]


@pytest.mark.parametrize("window", [1, 2, 9])
def test_pairs_are_the_words_near_each_other(window: int) -> None:
    by_hand: Counter[tuple[int, int]] = Counter()
    for sentence in TEXT:
        for i, word in enumerate(sentence):
            for j, other in enumerate(sentence):
                if i != j and abs(i - j) <= window:
                    by_hand[int(word), int(other)] += 1
    found = Counter(zip(*(each.tolist() for each in pairs(TEXT, window)), strict=True))
    assert found == by_hand
    counts = cooccurrences(TEXT, 4, window)
    assert {place: n for place, n in np.ndenumerate(counts) if n} == by_hand


def test_pmi_is_the_log_of_a_ratio() -> None:
    counts = cooccurrences(TEXT, 4, 2)
    found, total = pmi(counts), counts.sum()
    for (word, context), count in np.ndenumerate(counts):
        if not count:
            assert found[word, context] == -np.inf
            continue
        p = count / total
        alone = counts[word].sum() / total, counts[:, context].sum() / total
        assert found[word, context] == pytest.approx(math.log(p / (alone[0] * alone[1])))


def test_all_directions_of_ppmi_keep_every_angle() -> None:
    """Rows of U S and of PPMI have the same products; our vectors are U S^(1/2)."""
    positive = np.maximum(pmi(cooccurrences(TEXT, 4, 2)), 0.0)
    own = ppmi_vectors(cooccurrences(TEXT, 4, 2), 4)
    size = np.linalg.svd(positive, compute_uv=False)
    assert (own**2).sum(axis=0) == pytest.approx(size)
    assert (own * np.sqrt(size)) @ (own * np.sqrt(size)).T == pytest.approx(positive @ positive.T)
    assert ppmi_vectors(cooccurrences(TEXT, 4, 2), 2) == pytest.approx(own[:, :2])


def test_the_loss_is_the_mean_over_all_that_could_be_drawn() -> None:
    """Each true pair with each pair of negative words, written out."""
    rng = np.random.default_rng(0)
    scores, true = rng.normal(size=(3, 4)), rng.integers(3, size=(3, 4)).astype(float)
    drawn = rng.dirichlet(np.ones(4))

    def cost(score: float) -> float:
        return -math.log(1 / (1 + math.exp(-score)))

    total = 0.0
    for (given, context), times in np.ndenumerate(true):
        for first, second in product(range(4), repeat=2):
            wrong = cost(-scores[given, first]) + cost(-scores[given, second])
            chance = drawn[first] * drawn[second]
            total += times * chance * (cost(scores[given, context]) + wrong)
    found = expected_loss(*(torch.as_tensor(each) for each in (scores, true, drawn)), 2)
    assert float(found) == pytest.approx(total / true.sum())


def test_skip_gram_comes_to_the_pmi_less_log_k() -> None:
    """With as many numbers as words, and negatives drawn as often as they stand near others (Levy
    and Goldberg 2014)."""
    rng = np.random.default_rng(1)
    chance = rng.dirichlet(np.ones(5), size=5)
    text, word = [], 0
    for _ in range(4000):
        other = int(rng.choice(5, p=chance[word]))
        text.append(np.array([word, other]))
        word = other
    negatives = 3
    inside, outside = word2vec(
        text, 5, dim=5, window=1, negatives=negatives, steps=3000, smoothing=1.0
    )
    counts = cooccurrences(text, 5, 1)
    often = counts > 0
    expected = pmi(counts) - math.log(negatives)
    assert (inside @ outside.T)[often] == pytest.approx(expected[often], abs=0.01)
    assert np.std(expected[often]) > 0.3


@pytest.mark.parametrize("method", ["skip-gram", "cbow"])
def test_words_of_one_class_come_together(method: Method) -> None:
    """a or b, then c or d: the two of a pair stand in the same places."""
    rng = np.random.default_rng(0)
    text = [np.array([rng.integers(2), 2 + rng.integers(2), 4]) for _ in range(600)]
    own, _ = word2vec(text, 5, method, dim=6, window=1, steps=300)
    for word, twin in ((0, 1), (1, 0), (2, 3), (3, 2)):
        assert ranked(own, own[word], (word,))[0] == twin
    again, _ = word2vec(text, 5, method, dim=6, window=1, steps=300)
    assert np.array_equal(own, again)
    other, _ = word2vec(text, 5, method, dim=6, window=1, steps=5, seed=1)
    assert not np.allclose(own, other)


def test_cbow_with_one_neighbour_is_skip_gram() -> None:
    """In sentences of two words the mean of what stands near is one word."""
    rng = np.random.default_rng(0)
    text = [np.array([rng.integers(2), 2 + rng.integers(2)]) for _ in range(400)]
    one, two = (word2vec(text, 4, method, 4, 1, steps=800) for method in ("skip-gram", "cbow"))
    scores = [inside @ outside.T for inside, outside in (one, two)]
    often = cooccurrences(text, 4, 1) > 0
    assert scores[0][often] == pytest.approx(scores[1][often], abs=0.3)


def test_a_text_of_single_words_is_refused() -> None:
    with pytest.raises(ValueError, match="no word stands near another one"):
        word2vec([np.array([0]), np.array([1])], 2)


def planted() -> tuple[np.ndarray, list[Analogy], dict[int, set[int]]]:
    """Three kinds with two features, two words each: a vector is its kind plus its feature."""
    kinds, features = np.eye(3), 0.7 * np.eye(2)
    rng = np.random.default_rng(0)
    words = [(k, f) for k in range(3) for f in range(2) for _ in range(2)]
    vectors = np.array([[*kinds[k], *features[f]] for k, f in words])
    vectors += rng.normal(scale=0.01, size=vectors.shape)
    by_class = {(k, f): {i for i, w in enumerate(words) if w == (k, f)} for k, f in words}
    asked = [
        Analogy(a, b, c, frozenset(by_class[k, 1]))
        for j in range(3)
        for k in range(3)
        if j != k
        for a in by_class[j, 0]
        for b in by_class[j, 1]
        for c in by_class[k, 0]
    ]
    return vectors, asked, {i: by_class[words[i]] for i in range(len(words))}


def test_planted_analogies_are_right_and_their_controls_are_not() -> None:
    vectors, asked, twins = planted()
    for without in (None, twins):
        found = right(vectors, asked, without)
        assert found["c + b - a"].all()
        assert found["b alone"].mean() < 1.0
    inputs, classes = right(vectors, asked), right(vectors, asked, twins)
    assert inputs["c alone"].mean() == 0.0  # its twin of the same class is nearest
    assert classes["c alone"].all()  # without twins the kind alone leads there
    assert inputs["shuffled"].mean() < 1.0
    assert inputs["chance"] == pytest.approx(2 / 9)
    assert classes["chance"] == pytest.approx(2 / 6)


def test_the_answer_is_the_nearest_by_cosine() -> None:
    vectors = np.random.default_rng(2).normal(size=(7, 3))
    known = [v / np.linalg.norm(v) for v in vectors]
    goal = known[2] + known[1] - known[0]
    by_hand = sorted((3, 4, 5, 6), key=lambda i: -(known[i] @ goal) / np.linalg.norm(goal))
    assert answer(vectors, 0, 1, 2).tolist() == by_hand
    assert np.linalg.norm(unit(vectors), axis=1) == pytest.approx(1.0)
    assert unit(np.zeros((1, 3))).tolist() == [[0, 0, 0]]
