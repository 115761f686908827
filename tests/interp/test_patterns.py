"""The pattern that sets two groups of lines apart, against all patterns and Fisher's exact test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from math import log10

import numpy as np
import pytest
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from interp.automata.equivalence import Word
from interp.automata.extraction import run
from interp.automata.patterns import MOST_SYMBOLS, best_pattern
from models.languages import printed_lines

ABC = ("a", "b", "c")

Has = Callable[[Word], bool]


def in_order(pattern: Word) -> Has:
    def has(word: Word) -> bool:
        rest = iter(word)
        return all(symbol in rest for symbol in pattern)

    return has


def side_by_side(pattern: Word) -> Has:
    size = len(pattern)
    return lambda word: any(word[at : at + size] == pattern for at in range(len(word)))


def patterns(symbols: Sequence[str], longest: int) -> Iterator[tuple[str, Has]]:
    """Every pattern in words, and which lines have it."""
    for symbol in symbols:
        yield f"contains {symbol}", in_order((symbol,))
    for length in range(2, longest + 1):
        for pattern in product(symbols, repeat=length):
            yield f"contains {' ... '.join(pattern)} in this order", in_order(pattern)
            yield f"contains {' '.join(pattern)} side by side", side_by_side(pattern)


@cache
def doubled(inside: int, outside: int, yes: int, no: int) -> float:
    """Fisher's exact p, twice the smaller tail."""
    table = [[inside, yes - inside], [outside, no - outside]]
    tails = [fisher_exact(table, alternative=way).pvalue for way in ("less", "greater")]
    return min(1.0, 2 * min(tails))


def counted(words: Sequence[Word], labels: Sequence[bool], has: Has) -> tuple[int, int]:
    """The positive and the negative lines that have a pattern."""
    inside = sum(has(word) for word, label in zip(words, labels, strict=True) if label)
    return inside, sum(map(has, words)) - inside


@st.composite
def corpora(draw: st.DrawFn) -> tuple[list[Word], list[bool], tuple[str, ...], int]:
    """Labelled lines, their alphabet, and the longest pattern."""
    symbols = ABC[: draw(st.integers(1, 3))]
    lines = st.lists(st.sampled_from(symbols), max_size=5).map(tuple)
    rows = draw(st.lists(st.tuples(lines, st.booleans()), min_size=1, max_size=14))
    return [w for w, _ in rows], [y for _, y in rows], symbols, draw(st.integers(1, 3))


@pytest.mark.slow
@settings(max_examples=60)
@given(corpora())
def test_no_pattern_sets_the_groups_further_apart(
    corpus: tuple[list[Word], list[bool], tuple[str, ...], int],
) -> None:
    """Against all patterns; and what is said of the best one is true of it."""
    words, labels, symbols, longest = corpus
    found = best_pattern(words, np.array(labels), symbols, longest)
    yes, no = sum(labels), len(labels) - sum(labels)
    every = {text: counted(words, labels, has) for text, has in patterns(symbols, longest)}
    assert found.tried == len(every)
    assert found.lines == (yes, no)
    assert found.having == every[found.text]
    least = min(doubled(*having, yes, no) for having in every.values())
    assert 10**found.log10_p == pytest.approx(least, rel=1e-9)
    assert 10**found.log10_p == pytest.approx(doubled(*found.having, yes, no), rel=1e-9)
    assert found.corrected_p == pytest.approx(min(1.0, least * len(every)), rel=1e-9)


@pytest.mark.slow
@settings(max_examples=60)
@given(corpora())
def test_the_rule_is_the_pattern_or_that_the_line_lacks_it(
    corpus: tuple[list[Word], list[bool], tuple[str, ...], int],
) -> None:
    """Whichever the positive lines do more often than the negative ones."""
    words, labels, symbols, longest = corpus
    found = best_pattern(words, np.array(labels), symbols, longest)
    (inside, outside), (yes, no) = found.having, found.lines
    lacks = inside * no < outside * yes
    has = dict(patterns(symbols, longest))[found.text]
    assert found.rule.text == (f"never {found.text}" if lacks else found.text)
    assert run(found.rule.dfa, words).tolist() == [has(word) != lacks for word in words]


@pytest.mark.parametrize("pattern", [*patterns(("a", "b"), 3)], ids=lambda pattern: pattern[0])
def test_a_pattern_that_makes_the_groups_is_found(pattern: tuple[str, Has]) -> None:
    words = list(words_up_to("ab", 5))
    labels = [pattern[1](word) for word in words]
    found = best_pattern(words, np.array(labels), ("a", "b"))
    assert found.having == (sum(labels), 0)
    assert run(found.rule.dfa, words).tolist() == labels


def test_what_the_positive_lines_lack_is_denied() -> None:
    words = [tuple(w) for w in ("ab", "cab", "abb", "bab", "bca", "b", "cb", "ba", "bac")]
    found = best_pattern(words, np.array([False] * 4 + [True] * 5), ABC)
    assert found.rule.text == "never contains a ... b in this order"
    assert found.text == "contains a ... b in this order"
    assert (found.having, found.lines) == ((0, 4), (5, 4))
    assert run(found.rule.dfa, words).tolist() == [False] * 4 + [True] * 5


def test_the_printed_lines() -> None:
    """The lecture's 26 lines: one pattern alone has 13 of 13 and 1 of 13."""
    lines = printed_lines()
    words, labels = [word for _, word in lines], [group == "A" for group, _ in lines]
    symbols = sorted({symbol for word in words for symbol in word})
    found = best_pattern(words, np.array(labels), symbols)
    assert found.text == "contains leeuw ... olifant ... leeuw in this order"
    assert (found.having, found.lines) == ((13, 1), (13, 13))
    n = len(symbols)
    assert found.tried == n + 2 * n**2 + 2 * n**3
    assert found.log10_p == pytest.approx(log10(doubled(13, 1, 13, 13)))
    assert found.corrected_p < 0.01
    as_good = [text for text, has in patterns(symbols, 3) if counted(words, labels, has) == (13, 1)]
    assert as_good == [found.text]


def many(count: int, seed: int) -> tuple[list[str], list[Word]]:
    """Random lines over twenty symbols."""
    symbols = [f"s{index:02}" for index in range(20)]
    rng = np.random.default_rng(seed)
    return symbols, [tuple(rng.choice(symbols, 8).tolist()) for _ in range(count)]


@pytest.mark.slow
def test_of_many_symbols_those_that_tell_most_alone_make_the_patterns() -> None:
    symbols, words = many(300, 0)
    has = side_by_side(("s19", "s07"))
    for word in range(0, 300, 3):  # in a third of the lines
        words[word] = (*words[word][:3], "s19", "s07", *words[word][5:])
    labels = [has(word) for word in words]
    found = best_pattern(words, np.array(labels), symbols)
    assert found.text == "contains s19 s07 side by side"
    assert found.having == (found.lines[0], 0)
    assert found.tried == 20 + MOST_SYMBOLS + 2 * MOST_SYMBOLS**2 + 2 * MOST_SYMBOLS**3
    assert run(found.rule.dfa, words).tolist() == labels


def test_what_no_pattern_is_made_of_still_stands_between() -> None:
    """s01 x s02 is not s01 s02 side by side, whatever x is; no symbol tells anything alone."""
    symbols = [f"s{index:02}" for index in range(20)]
    others = [x for x in symbols if x not in ("s01", "s02")]
    words = [("s01", "s02", x) for x in others] + [("s01", x, "s02") for x in others]
    found = best_pattern(words, np.array([True] * 18 + [False] * 18), symbols, longest=2)
    assert found.text == "contains s01 s02 side by side"
    assert found.having == (18, 0)


@pytest.mark.parametrize("seed", range(5))
def test_random_labels_have_no_pattern(seed: int) -> None:
    """The best of over a thousand patterns is no better than chance makes one of them."""
    rng = np.random.default_rng(seed)
    words = [tuple(rng.choice(list("abcdefgh"), 8).tolist()) for _ in range(60)]
    found = best_pattern(words, rng.random(60) < 0.5, tuple("abcdefgh"))
    assert found.tried == 8 + 2 * 64 + 2 * 512
    assert 10**found.log10_p < 0.1, "uncorrected it might pass for one"
    assert found.corrected_p > 0.2


def test_a_group_without_lines_sets_nothing_apart() -> None:
    words = [("a", "b"), ("c",), ()]
    for label in (True, False):
        found = best_pattern(words, np.full(3, label), ABC)
        assert found.corrected_p == 1.0
        assert found.log10_p == 0.0


def test_hundreds_of_lines_have_a_p_too_small_for_a_float() -> None:
    """The logarithm is kept: 2 / C(4000, 2000) is below any double."""
    words = [("a",), ("b",)] * 2000
    found = best_pattern(words, np.array([True, False] * 2000), ("a", "b"), longest=1)
    bits = sum(log10((2000 + i) / i) for i in range(1, 2001))
    assert found.log10_p == pytest.approx(log10(2) - bits, rel=1e-6)
    assert found.corrected_p == 0.0
