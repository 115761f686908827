"""Hard negatives: outside the language, as near to a member as can be, and evenly drawn."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import distance, words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from models.languages import (
    LANGUAGES,
    CountingLanguage,
    DyckLanguage,
    FormalLanguage,
    LabelledCorpus,
    RegularLanguage,
    Word,
    language,
)
from models.training.evaluation import balanced_words


def spelled(lang: FormalLanguage, count: int, length: int, seed: int = 0) -> list[Word]:
    rng = np.random.default_rng(seed)
    words = lang.near_misses(rng, np.full(count, length, dtype=np.int64))
    assert (words.lengths == length).all()
    return [lang.vocabulary.decode(ids) for ids in words.ids]


def by_membership(lang: FormalLanguage, length: int) -> dict[bool, list[Word]]:
    words = [w for w in words_up_to(lang.vocabulary.symbols, length) if len(w) == length]
    labels = lang.labels(lang.vocabulary.words(words))
    return {m: [w for w, x in zip(words, labels, strict=True) if x == m] for m in (True, False)}


def pairs(words: dict[bool, list[Word]]) -> Counter[Word]:
    """How many members each word outside is one substitution away from."""
    counted = Counter({o: sum(distance(m, o) == 1 for m in words[True]) for o in words[False]})
    return +counted  # without those that are further away


def reach(lang: FormalLanguage) -> int:
    """Substitutions that a near miss may be away: a symbol that moves shifts the blocks between,
    and brackets that cross have changed places."""
    if isinstance(lang, DyckLanguage):
        return len(lang.vocabulary.symbols) // 2
    return lang.blocks - 1 if isinstance(lang, CountingLanguage) else 1


SMALL = [name for name in LANGUAGES if len(language(name).vocabulary.symbols) <= 5]


@pytest.mark.parametrize("name", SMALL)
def test_near_misses_are_just_outside(name: str) -> None:
    lang = language(name)
    assert isinstance(lang, FormalLanguage)
    longest = {2: 9, 3: 6, 4: 4, 5: 4}[len(lang.vocabulary.symbols)]
    for length in range(1, longest + 1):
        words = by_membership(lang, length)
        near = any(distance(m, o) == 1 for o in words[False] for m in words[True])
        assert lang.has_near_miss(length) == near
        if not near:
            with pytest.raises(LookupError):
                lang.sample(np.random.default_rng(0), 1, [length], False, hard=True)
            continue
        for missed in set(spelled(lang, 100, length)):
            assert missed in words[False]
            assert any(distance(missed, member) <= reach(lang) for member in words[True])


def test_brackets_cross_in_some_near_misses() -> None:
    """One substitution in a member never makes them cross: they need near misses of their own."""
    lang = language("dyck2")
    assert isinstance(lang, FormalLanguage)
    near = pairs(by_membership(lang, 6))
    crossing = [word for word in spelled(lang, 400, 6) if word not in near]
    assert {"".join(word) for word in crossing} >= {"([)]()", "()[(])", "(([)])"}
    assert 0.1 < len(crossing) / 400 < 0.5  # half of those in which brackets of two kinds nest
    for word in crossing:
        kinds = [[s for s in word if s in kind] for kind in ("()", "[]")]
        assert all(
            language("dyck1").contains(["(" if s in "([" else ")" for s in k]) for k in kinds
        )
    seen = set(spelled(language("dyck1"), 200, 6))
    assert seen <= set(pairs(by_membership(language("dyck1"), 6)))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=4, max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(1, 6),
)
def test_of_random_automata(table: list[list[int]], final: set[int], length: int) -> None:
    transitions = {s: dict(zip("ab", row, strict=True)) for s, row in enumerate(table)}
    dfa = DFA(
        states=set(range(4)),
        input_symbols={"a", "b"},
        transitions=transitions,
        initial_state=0,
        final_states=final,
    )
    lang = RegularLanguage("random", dfa, "ab")
    near = pairs(by_membership(lang, length))
    assert lang.has_near_miss(length) == bool(near)
    if near:
        assert set(spelled(lang, 50, length)) <= set(near)


@pytest.mark.parametrize(
    ("pattern", "symbols"), [("aa*|b(a|b)*", "ab"), ("(a|b|c)*ab(a|b|c)*", "abc"), ("(ab)*", "ab")]
)
def test_every_pair_of_a_member_and_a_substitution_is_as_likely(pattern: str, symbols: str) -> None:
    lang = RegularLanguage.from_regex(pattern, pattern, symbols)
    near = pairs(by_membership(lang, 4))
    seen = Counter(spelled(lang, 4000, 4))
    assert set(seen) == set(near)
    total = sum(near.values())
    expected = [4000 * near[word] / total for word in near]
    if len(expected) > 1:
        assert chisquare([seen[word] for word in near], expected).pvalue > 0.001


def test_the_one_position_of_many_that_decides_is_found() -> None:
    """A random substitution in a word of FIRST breaks it once in 2000 times."""
    for missed in spelled(language("first"), 20, 2000):
        assert missed[0] == "a"
    for missed in spelled(language("lt2"), 20, 500):  # nearly every word has many an ab
        assert "ab" not in "".join(missed)
    assert set(spelled(language("lt1"), 5, 500)) == {("b",) * 500}


def test_a_language_of_shuffled_near_misses_has_edited_hard_ones() -> None:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    for missed in spelled(lang, 50, 12):
        assert not lang.contains(missed)
        assert distance(lang.counterfactual(missed), missed) == 1


@pytest.mark.parametrize("symbols", ["ab", "abc", "abcd"])
def test_half_of_the_hard_negatives_that_count_have_a_symbol_moved(symbols: str) -> None:
    lang = CountingLanguage(symbols, symbols)
    in_blocks = [list(word) == sorted(word) for word in spelled(lang, 600, lang.length_of(10))]
    assert 0.4 < np.mean(in_blocks) < 0.7  # a substitution at a border stays in blocks


@pytest.mark.parametrize("name", ["anbncn", "shuffle2", "dyck1", "dieren_muis"])
def test_a_hard_sample_has_the_labels_row_by_row(name: str) -> None:
    lang = language(name)
    sample = lang.sample(np.random.default_rng(0), 200, range(1, 13), split="test", hard=True)
    assert (lang.labels(sample.words) == sample.labels).all()
    assert 60 < sample.labels.sum() < 140
    again = lang.sample(np.random.default_rng(0), 200, range(1, 13), split="test", hard=True)
    assert (again.words.ids == sample.words.ids).all()


def test_hard_test_words_are_of_lengths_that_have_both() -> None:
    lang = language("anbncn")
    found = {n: balanced_words(lang, n, 8, 0, hard=True) for n in range(1, 10)}
    assert [n for n, sample in found.items() if sample is not None] == [3, 6, 9]
    assert all(s.labels.sum() == 4 for s in found.values() if s is not None)
    assert balanced_words(lang, 4, 8, 0) is not None


def test_a_corpus_has_its_own_lines_alone() -> None:
    words = [(f"w{n}", "x") for n in range(100)]
    corpus = LabelledCorpus("lines", ["in", "out"] * 50, words)
    drawn = corpus.sample(np.random.default_rng(0), 10, [2], split="test", hard=True)
    assert len(drawn.labels) == 10
