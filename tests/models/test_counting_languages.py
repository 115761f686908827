"""a^n b^n and its kin: variables, sizes, and the positions that decide."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from brute import Listed, words_up_to

from models.languages import CountingLanguage


@pytest.fixture(params=["ab", "abc", "abcd"])
def symbols(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def lang(symbols: str) -> CountingLanguage:
    return CountingLanguage(symbols, symbols)


def listed(symbols: str) -> Listed:
    members = (tuple(s for s in symbols for _ in range(n)) for n in range(1, 8))
    return Listed(tuple(symbols), members)


@pytest.mark.slow
def test_state_counts_symbols(lang: CountingLanguage, symbols: str) -> None:
    oracle = listed(symbols)
    for word in words_up_to(symbols, 5):
        expected = {f"count_{s}": word.count(s) for s in symbols}
        for x, y in pairwise(symbols):
            expected[f"{x}-{y}"] = word.count(x) - word.count(y)
        expected["remaining"] = len(symbols) * max(word.count(symbols[0]), 1) - len(word)
        expected["block"] = symbols.index(word[-1]) if word else 0
        expected["valid"] = int(oracle.alive(word))
        assert lang.state(word) == expected, word


def test_remaining_is_the_shortest_way_to_a_member(lang: CountingLanguage, symbols: str) -> None:
    oracle = listed(symbols)
    for word in filter(oracle.alive, words_up_to(symbols, 6)):
        ways = [len(m) - len(word) for m in oracle.members if m[: len(word)] == word]
        assert lang.state(word)["remaining"] == min(ways), word


def test_every_position_of_a_member_decides(lang: CountingLanguage, symbols: str) -> None:
    """The published rule says that any substitution breaks a member: try them all."""
    for n in (1, 2, 3):
        word = tuple(s for s in symbols for _ in range(n))
        assert lang.rationale(word) == tuple(range(len(word)))
        for position in range(len(word)):
            for symbol in set(symbols) - {word[position]}:
                assert not lang.contains((*word[:position], symbol, *word[position + 1 :]))


@pytest.mark.slow
def test_of_other_words_the_wrong_positions_decide(lang: CountingLanguage, symbols: str) -> None:
    """Wrong: not as in the one member of the same length; where there is none, nothing decides."""
    oracle = listed(symbols)
    for word in words_up_to(symbols, 5):
        if not oracle.contains(word):
            members = [m for m in oracle.members if len(m) == len(word)]
            expected = [tuple(np.flatnonzero(np.array(m) != np.array(word))) for m in members]
            assert lang.rationale(word) == (expected[0] if expected else None), word


def test_sizes_and_lengths(lang: CountingLanguage, symbols: str) -> None:
    k = len(symbols)
    assert lang.lengths(3) == range(1, 3 * k + 1)
    assert [lang.size_of(lang.length_of(n)) for n in range(1, 6)] == [1, 2, 3, 4, 5]
    assert [lang.size_of(length) for length in range(k + 1)] == [None] * k + [1]
