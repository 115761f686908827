"""The 26 printed Dutch lines, and the language whose rule they follow."""

from __future__ import annotations

from collections import Counter
from math import comb

import numpy as np
import pytest

from models.languages import RegularLanguage, Word, language, printed_lines

RULE = ("leeuw", "olifant", "leeuw")


@pytest.fixture
def dieren() -> RegularLanguage:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    return lang


def follows_the_rule(word: Word) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in RULE)


def test_the_printed_lines() -> None:
    lines = printed_lines()
    assert Counter(group for group, _ in lines) == {"A": 13, "B": 13}
    assert [group for group, _ in lines] == ["A"] * 13 + ["B"] * 13
    assert Counter(len(word) for _, word in lines) == {10: 24, 9: 2}
    assert len({symbol for _, word in lines for symbol in word}) == 8
    assert len(set(lines)) == 26


def test_the_rule_holds_for_all_of_a_and_the_tenth_of_b(dieren: RegularLanguage) -> None:
    lines = printed_lines()
    assert [dieren.contains(word) for _, word in lines] == [True] * 13 + [
        number == 10 for number in range(1, 14)
    ]
    assert all(dieren.contains(word) == follows_the_rule(word) for _, word in lines)


def test_no_other_three_words_are_in_all_of_a() -> None:
    """Which is how the rule was found: one pattern of 512 fits."""
    animals = {symbol for _, word in printed_lines() for symbol in word}
    members = [word for group, word in printed_lines() if group == "A"]

    def in_order(word: Word, pattern: Word) -> bool:
        rest = iter(word)
        return all(symbol in rest for symbol in pattern)

    patterns = [(x, y, z) for x in animals for y in animals for z in animals]
    assert [p for p in patterns if all(in_order(w, p) for w in members)] == [RULE]


def test_the_share_of_random_lines_that_follow_the_rule(dieren: RegularLanguage) -> None:
    """A word contains a given sequence of three in order as often as a coin of 1/8 shows heads
    three times: at each symbol there is one that helps."""
    closed = sum(comb(10, k) * 7 ** (10 - k) for k in range(3, 11))
    assert dieren.dfa.count_words_of_length(10) == closed
    assert closed / 8**10 == pytest.approx(0.1195, abs=1e-4)


def test_states_tell_how_far_the_rule_has_come(dieren: RegularLanguage) -> None:
    word = ("aap", "leeuw", "leeuw", "olifant", "kat", "leeuw", "aap")
    assert [dieren.state(word[:t])["state"] for t in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_the_symbols_that_decide_in_a_line(dieren: RegularLanguage) -> None:
    """Of the two first leeuw either is enough. For a missing last one any later place will do."""
    assert dieren.rationales(("aap", "leeuw", "leeuw", "olifant", "kat", "leeuw")) == ((3, 5),)
    assert dieren.rationales(("leeuw", "kat", "olifant", "aap", "muis")) == ((3,), (4,))


@pytest.mark.parametrize("length", [1, 2, 3, 10, 16])
def test_samples(dieren: RegularLanguage, length: int) -> None:
    sample = dieren.sample(np.random.default_rng(0), 200, [length])
    words = [dieren.vocabulary.decode(ids) for ids in sample.words.ids]
    assert sample.labels.tolist() == [follows_the_rule(word) for word in words]
    assert sample.labels.any() == (length >= 3)


def test_a_teacher_of_dieren_gives_verdicts_alone(dieren: RegularLanguage) -> None:
    assert dieren.default_objective == "verdict"
    assert language("anbn").default_objective == "next-symbols"
