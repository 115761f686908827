"""Samples keep their promises: label, length, seed, evenness, and hard negatives."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import distance, words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from models.languages import (
    CountingLanguage,
    DyckLanguage,
    FormalLanguage,
    RegularLanguage,
    Sample,
    ShuffleLanguage,
    Word,
)
from models.languages.vocabulary import END_ID


def spelled(lang: FormalLanguage, sample: Sample) -> list[Word]:
    words = zip(sample.words.ids, sample.words.lengths, strict=True)
    return [lang.vocabulary.decode(ids[:length]) for ids, length in words]


def equal_blocks(symbols: str) -> Callable[[str], bool]:
    return lambda word: (
        bool(word) and word == "".join(s * (len(word) // len(symbols)) for s in symbols)
    )


def fits(pattern: str) -> Callable[[str], bool]:
    return lambda word: re.fullmatch(pattern, word) is not None


def balanced(word: str) -> bool:
    """Each kind of bracket by itself."""
    kinds = [[(c == x) - (c == y) for c in word] for x, y in ("()", "[]")]
    return all(sum(kind) == 0 and min(accumulate(kind)) >= 0 for kind in kinds)


def nested(word: str) -> bool:
    while word != (word := word.replace("()", "").replace("[]", "")):
        pass
    return not word


CASES: dict[str, tuple[FormalLanguage, Callable[[str], bool]]] = {
    "shuffle2": (ShuffleLanguage("shuffle2", 2), balanced),
    "shuffle1": (ShuffleLanguage("shuffle1", 1), balanced),
    "dyck2": (DyckLanguage("dyck2", 2, 6), nested),
    **{s: (CountingLanguage(s, s), equal_blocks(s)) for s in ("a", "ab", "abc", "abcd")},
    **{
        p: (RegularLanguage.from_regex(p, p, symbols), fits(p))
        for p, symbols in (("a+", "ab"), ("(ab)*", "ab"), ("ab|ba|cab|c", "abc"), ("(a|b)*", "ab"))
    },
    "shuffled": (
        RegularLanguage("shuffled", DFA.from_subsequence({*"xyz"}, "xyx"), "xyz", "shuffle"),
        fits(".*x.*y.*x.*"),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("label", [None, True, False])
def test_labels_and_lengths_are_as_promised(name: str, label: bool | None) -> None:
    """A near miss among them is never in the language: the labels are checked by another rule."""
    lang, rule = CASES[name]
    rng = np.random.default_rng(0)
    for length in range(1, 13):
        if not any(lang.has(length, wanted) for wanted in (True, False) if label in (None, wanted)):
            with pytest.raises(LookupError, match="no such word"):
                lang.sample(rng, 1, [length], label)
            continue
        sample = lang.sample(rng, 64, [length], label)
        assert (sample.words.lengths == length).all()
        assert len(sample.words) == len(sample.labels) == 64
        truth = [rule("".join(word)) for word in spelled(lang, sample)]
        assert sample.labels.tolist() == truth
        assert label is None or set(truth) == {label}


@pytest.mark.parametrize("name", CASES)
def test_a_sample_mixes_lengths_and_labels(name: str) -> None:
    lang, rule = CASES[name]
    sample = lang.sample(np.random.default_rng(0), 400, range(1, 9))
    for wanted in (True, False):
        possible = {n for n in range(1, 9) if lang.has(n, wanted)}
        drawn = sample.words.lengths[sample.labels == wanted]
        assert set(drawn.tolist()) == possible
        if possible and all(lang.has(n, not wanted) for n in possible):
            assert 160 < len(drawn) < 240
    assert [rule("".join(word)) for word in spelled(lang, sample)] == sample.labels.tolist()
    past_end = np.arange(sample.words.ids.shape[1]) >= sample.words.lengths[:, None]
    assert (sample.words.ids[past_end] == END_ID).all()


@pytest.mark.parametrize("name", CASES)
def test_a_sample_hangs_on_its_generator_alone(name: str) -> None:
    lang, _ = CASES[name]
    first, again, other = (
        lang.sample(np.random.default_rng(seed), 100, range(1, 9)) for seed in (5, 5, 6)
    )
    assert (first.words.ids == again.words.ids).all()
    assert (first.labels == again.labels).all()
    assert spelled(lang, first) != spelled(lang, other)


def draw(lang: FormalLanguage, count: int, length: int, label: bool) -> list[Word]:
    return spelled(lang, lang.sample(np.random.default_rng(0), count, [length], label))


def test_members_of_a_regular_language_are_drawn_evenly() -> None:
    """Length 5 has aaaaa and 16 words that begin with b: a walk with fair steps would draw the
    first half of the time."""
    lang = RegularLanguage.from_regex("uneven", "aa*|b(a|b)*", "ab")
    members = [w for w in words_up_to("ab", 5) if len(w) == 5 and (w[0] == "b" or "b" not in w)]
    seen = Counter(draw(lang, 3400, 5, True))
    assert set(seen) == set(members)
    assert chisquare([seen[w] for w in members]).pvalue > 0.001


def test_negatives_that_are_no_near_misses_are_drawn_evenly() -> None:
    """(ab)* has no member of odd length, so no near miss: every negative is an even draw."""
    lang = RegularLanguage.from_regex("ab", "(ab)*", "ab")
    words = [w for w in words_up_to("ab", 5) if len(w) == 5]
    seen = Counter(draw(lang, 3200, 5, False))
    assert set(seen) == set(words)
    assert chisquare([seen[w] for w in words]).pvalue > 0.001


def test_half_of_the_regular_negatives_are_one_edit_away() -> None:
    lang = RegularLanguage.from_regex("ab", "(ab)*", "ab")
    member = tuple("ab" * 10)
    near = [distance(word, member) == 1 for word in draw(lang, 400, 20, False)]
    assert 0.4 < np.mean(near) < 0.6


def test_shuffled_negatives_have_the_right_symbols_in_a_wrong_order() -> None:
    lang = RegularLanguage("s", DFA.from_subsequence({*"wxyz"}, "xyx"), "wxyz", "shuffle")
    near = [w.count("x") >= 2 and "y" in w for w in draw(lang, 400, 6, False)]
    spontaneous = [
        w.count("x") >= 2 and "y" in w
        for w in words_up_to("wxyz", 6)
        if len(w) == 6 and not re.fullmatch(".*x.*y.*x.*", "".join(w))
    ]
    assert np.mean(near) > np.mean(spontaneous) + 0.2


@pytest.mark.parametrize("symbols", ["ab", "abc", "abcd"])
def test_two_thirds_of_the_counting_negatives_are_near_a_member(symbols: str) -> None:
    """A third has one symbol moved between blocks, a third one substitution, a third is random."""
    lang = CountingLanguage(symbols, symbols)
    n = 6
    member = tuple(s for s in symbols for _ in range(n))
    negatives = draw(lang, 600, lang.length_of(n), False)
    in_blocks = [list(word) == sorted(word) for word in negatives]
    substituted = [distance(word, member) == 1 for word in negatives]
    assert 0.25 < np.mean(in_blocks) < 0.55  # a substitution at a border stays in blocks
    assert 0.25 < np.mean(substituted) < 0.75
    assert 0.55 < np.mean(np.logical_or(in_blocks, substituted)) < 0.8


@pytest.mark.parametrize("spread", ["even", "log"])
def test_the_spread_of_lengths(spread: str) -> None:
    """Even: each length as often. Log: as 1/length, so that each order of magnitude is as often."""
    lang, lengths = CASES["ab"][0], range(1, 41)
    sample = lang.sample(np.random.default_rng(0), 8000, lengths, spread=spread)
    for label in (True, False):
        possible = np.array([n for n in lengths if lang.has(n, label)])
        drawn = sample.words.lengths[sample.labels == label]
        share = np.ones(len(possible)) if spread == "even" else 1 / possible
        counts = [(drawn == n).sum() for n in possible]
        assert chisquare(counts, share / share.sum() * len(drawn)).pvalue > 0.001


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=4, max_size=4),
    st.sets(st.integers(0, 3)),
    st.integers(1, 7),
)
def test_samples_of_random_automata(table: list[list[int]], final: set[int], length: int) -> None:
    transitions = {s: dict(zip("ab", row, strict=True)) for s, row in enumerate(table)}
    dfa = DFA(
        states=set(range(4)),
        input_symbols={"a", "b"},
        transitions=transitions,
        initial_state=0,
        final_states=final,
    )
    lang = RegularLanguage("random", dfa, "ab")
    words = [w for w in words_up_to("ab", length) if len(w) == length]
    members = {w for w in words if dfa.accepts_input(w)}
    for label, possible in ((True, members), (False, set(words) - members)):
        if possible:
            assert set(draw(lang, 32, length, label)) <= possible
        else:
            with pytest.raises(LookupError):
                draw(lang, 32, length, label)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ab", "abcd", "(ab)*", "a+", "shuffled"])
def test_long_words(name: str) -> None:
    """The counts of words are rescaled, so that 2^2000 words are no trouble."""
    lang, rule = CASES[name]
    sample = lang.sample(np.random.default_rng(0), 40, [2000])
    assert [rule("".join(word)) for word in spelled(lang, sample)] == sample.labels.tolist()
    assert 0 < sample.labels.sum() < 40
