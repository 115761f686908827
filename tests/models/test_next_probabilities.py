"""How likely each token comes next, against the list of all words of the window."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import numpy as np
import pytest
from brute import words_up_to
from scipy.stats import chisquare

from models.languages import END_ID, FormalLanguage, Spread, Word, language
from models.languages.planted import PlantedLanguage

LONGEST = {
    "anbn": 12,
    "anbncn": 9,
    "an": 6,
    "anbn5": 10,
    "anbm": 8,
    "wwr": 8,
    "ww": 8,
    "anbmcndm": 8,
    "powers": 9,
    "dyck1-unbounded": 8,
    "dyck2-unbounded": 6,
    "dyck2": 6,
    "parity": 6,
    "first": 6,
}


def formal(name: str) -> FormalLanguage:
    known = language(name)
    assert isinstance(known, FormalLanguage)
    return known


def drawn_evenly(known: FormalLanguage, longest: int) -> dict[int, list[Word]]:
    """The members by length. All these languages draw the members of a length evenly, but for
    ``anbm`` and the brackets without bound, whose grammars weigh them."""
    found: dict[int, list[Word]] = {}
    for length in range(1, longest + 1):
        words = [*product(known.vocabulary.symbols, repeat=length)]
        labels = known.labels(known.vocabulary.words(words))
        if labels.any():
            found[length] = [word for word, label in zip(words, labels, strict=True) if label]
    return found


def weight(known: FormalLanguage, word: Word) -> float:
    of_grammar = getattr(known, "probability", None)
    return 1.0 if of_grammar is None else float(of_grammar(word))


@pytest.mark.parametrize("spread", ["even", "log"])
@pytest.mark.parametrize("name", LONGEST)
def test_it_is_the_sum_over_all_members_of_the_window(name: str, spread: Spread) -> None:
    known, longest = formal(name), LONGEST[name]
    members = drawn_evenly(known, longest)
    lengths = range(1, longest + 1)
    share = {n: 1 / n if spread == "log" else 1.0 for n in members}
    begins: dict[Word, float] = defaultdict(float)
    ends: dict[Word, float] = {}
    for length, words in members.items():
        weights = np.array([weight(known, word) for word in words])
        for word, part in zip(words, weights / weights.sum(), strict=True):
            ends[word] = share[length] / sum(share.values()) * part
            for end in range(length + 1):
                begins[word[:end]] += ends[word]
    shares = known.length_shares(lengths, spread)
    assert shares.sum() == pytest.approx(1.0)
    assert {int(n): p for n, p in enumerate(shares) if p} == pytest.approx(
        {n: each / sum(share.values()) for n, each in share.items()}
    )
    asked = [word for word in words_up_to(known.vocabulary.symbols, 5) if word]
    asked += [word for words in members.values() for word in words[:5]]
    batch = known.vocabulary.words(asked)
    found = known.next_probabilities(batch, shares)
    assert found is not None
    expected: dict[Word, np.ndarray] = {}
    for prefix in {word[:at] for word in asked for at in range(len(word) + 1)}:
        expected[prefix] = np.zeros(len(known.vocabulary))
        if (of := begins.get(prefix, 0.0)) > 0:
            expected[prefix][END_ID] = ends.get(prefix, 0.0) / of
            for symbol in known.vocabulary.symbols:
                expected[prefix][known.vocabulary.ids[symbol]] = begins[(*prefix, symbol)] / of
    for row, word in enumerate(asked):
        of_word = np.array([expected[word[:at]] for at in range(len(word) + 1)])
        assert np.abs(found[row, : len(word) + 1] - of_word).max() < 1e-9, word


@pytest.mark.parametrize("name", ["nested", "linear", "nested-adjectives"])
def test_words_are_drawn_as_it_says(name: str) -> None:
    """Too many words to list: what is drawn after some prefixes is counted."""
    known = formal(name)
    lengths = known.lengths(14)
    shares = known.length_shares(lengths)
    drawn = known.sample(np.random.default_rng(0), 1600, lengths, label=True).words
    p = known.next_probabilities(drawn, shares)
    assert p is not None
    tokens = np.pad(drawn.ids, ((0, 0), (0, 1)), constant_values=END_ID)
    seen: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    said: dict[tuple[int, ...], np.ndarray] = {}
    for row, length in enumerate(drawn.lengths.tolist()):
        for at in range(length + 1):
            prefix = tuple(drawn.ids[row, :at].tolist())
            seen[prefix][int(tokens[row, at])] += 1
            said.setdefault(prefix, p[row, at])
    often = sorted(seen, key=lambda prefix: -seen[prefix].total())[:12]
    assert len(max(often, key=len)) >= 2
    for prefix in often:
        may = np.flatnonzero(said[prefix])
        assert set(seen[prefix]) <= set(may.tolist())
        expected = said[prefix][may] * seen[prefix].total()
        if len(may) > 1:
            assert chisquare([seen[prefix][t] for t in may], expected).pvalue > 1e-4, prefix


def test_long_words_are_no_trouble_to_numbers() -> None:
    for name in ("parity", "dyck2", "dyck1-unbounded", "anbn"):
        known = formal(name)
        lengths = [*range(150, 161), *range(2, 20)]
        shares = known.length_shares(lengths)
        drawn = known.sample(np.random.default_rng(0), 1, [160], label=True).words
        found = known.next_probabilities(drawn, shares)
        assert found is not None
        assert np.isfinite(found).all()
        assert found.sum(axis=2) == pytest.approx(1.0)
        assert found[:, -1, END_ID] == pytest.approx(1.0)


def test_after_the_longest_word_nothing_comes() -> None:
    known = formal("anbn")
    shares = known.length_shares(range(1, 5))
    words = known.vocabulary.words([tuple("aaabbb")])
    found = known.next_probabilities(words, shares)
    assert found is not None
    assert found[0].sum(axis=1).tolist() == [1, 1, 1, 0, 0, 0, 0]


def test_what_is_not_known_is_not_told() -> None:
    for name in ("shuffle2", "halting", "dieren_muis"):
        known = formal(name)
        lengths = known.lengths(3)
        words = known.sample(np.random.default_rng(0), 2, lengths, label=True).words
        assert known.next_probabilities(words, known.length_shares(lengths)) is None
    assert isinstance(formal("dieren_muis"), PlantedLanguage)
