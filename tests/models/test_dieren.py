"""The 26 printed Dutch lines, and the language whose rule parts their groups."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations, groupby, pairwise, product
from math import comb

import numpy as np
import pytest

from models.languages import LANGUAGES, RegularLanguage, Word, language, printed_lines

RULE = ("leeuw", "olifant", "leeuw")
LETTERS = {"leeuw": "L", "olifant": "O"}


@pytest.fixture
def dieren() -> RegularLanguage:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    return lang


def follows_the_rule(word: Word) -> bool:
    """Told in another way than the registry tells it."""
    return re.fullmatch("L+O+L+", "".join(LETTERS.get(symbol, "") for symbol in word)) is not None


def in_order(word: Word, pattern: Word) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in pattern)


def test_the_printed_lines() -> None:
    lines = printed_lines()
    assert Counter(group for group, _ in lines) == {"A": 13, "B": 13}
    assert [group for group, _ in lines] == ["A"] * 13 + ["B"] * 13
    assert Counter(len(word) for _, word in lines) == {10: 24, 9: 2}
    assert len({symbol for _, word in lines for symbol in word}) == 8
    assert len(set(lines)) == 26


def test_the_rule_is_that_of_the_lecture(dieren: RegularLanguage) -> None:
    """13 of 13 lines of A and no line of B; the minimal automaton has five states."""
    assert [dieren.contains(word) for _, word in printed_lines()] == [True] * 13 + [False] * 13
    assert all(dieren.contains(w) == follows_the_rule(w) for _, w in printed_lines())
    assert dieren.machine == "a finite automaton of 5 states"


@pytest.mark.parametrize("length", range(6))
def test_all_short_words(dieren: RegularLanguage, length: int) -> None:
    words = list(product(dieren.vocabulary.symbols, repeat=length))
    asked = dieren.labels(dieren.vocabulary.words(words))
    assert asked.tolist() == [follows_the_rule(word) for word in words]


def blocks(words: list[Word], tier: frozenset[str]) -> Counter[Word]:
    """How many words have each row of blocks, with all left out that is not on the tier."""
    return Counter(tuple(s for s, _ in groupby(s for s in word if s in tier)) for word in words)


def test_of_all_rules_of_blocks_one_alone_parts_the_groups() -> None:
    """Which is how the rule was found: up to five blocks of one to three animals."""
    groups = {g: [word for group, word in printed_lines() if group == g] for g in "AB"}
    animals = sorted({symbol for _, word in printed_lines() for symbol in word})
    tried, apart = 0, {}
    for size in (1, 2, 3):
        for tier in map(frozenset, combinations(animals, size)):
            a, b = (blocks(groups[g], tier) for g in "AB")
            for length in range(size, 6):
                rows = product(sorted(tier), repeat=length)
                rules = [r for r in rows if set(r) == tier and all(x != y for x, y in pairwise(r))]
                tried += len(rules)
                apart |= {rule: a[rule] - b[rule] for rule in rules}
    first, second = Counter({rule: abs(count) for rule, count in apart.items()}).most_common(2)
    assert tried == 3928
    assert (first, second[1]) == ((RULE, 13), 7)
    assert tried / comb(26, 13) == pytest.approx(4e-4, abs=3e-5)  # Fisher's, one-sided


def test_the_weaker_rule_has_an_exception() -> None:
    """One pattern of 512 fits all of A, and the tenth line of B has it as well: O L O L."""
    animals = {symbol for _, word in printed_lines() for symbol in word}
    members = [word for group, word in printed_lines() if group == "A"]
    patterns = product(animals, repeat=3)
    assert [p for p in patterns if all(in_order(w, p) for w in members)] == [RULE]
    gaps = language("dieren-gaps")
    assert [gaps.contains(word) for _, word in printed_lines()] == [True] * 13 + [
        number == 10 for number in range(1, 14)
    ]
    for length in range(5):
        words = list(product(sorted(animals), repeat=length))
        assert [gaps.contains(w) for w in words] == [in_order(w, RULE) for w in words]


def test_the_share_of_random_lines_that_follow_the_rules(dieren: RegularLanguage) -> None:
    """Of k places on the tier, two borders part the runs; with gaps one symbol of eight helps."""
    closed = sum(comb(10, k) * 6 ** (10 - k) * comb(k - 1, 2) for k in range(3, 11))
    assert dieren.dfa.count_words_of_length(10) == closed
    assert closed / 8**10 == pytest.approx(0.0725, abs=1e-4)
    gaps = language("dieren-gaps")
    assert isinstance(gaps, RegularLanguage)
    closed = sum(comb(10, k) * 7 ** (10 - k) for k in range(3, 11))
    assert gaps.dfa.count_words_of_length(10) == closed
    assert closed / 8**10 == pytest.approx(0.1195, abs=1e-4)


def test_states_tell_how_far_the_rule_has_come(dieren: RegularLanguage) -> None:
    """Numbered breadth first; 2 is where no line comes back from."""
    word = ("aap", "leeuw", "leeuw", "olifant", "kat", "leeuw", "aap", "olifant", "leeuw")
    states = [dieren.state(word[:t]) for t in range(10)]
    assert [state["state"] for state in states] == [0, 0, 1, 1, 3, 3, 4, 4, 2, 2]
    assert [state["valid"] for state in states] == [1] * 8 + [0] * 2


def test_the_symbols_that_decide_in_a_line(dieren: RegularLanguage) -> None:
    """In a line of the rule also where an olifant would come too early, or again.

    For a missing last leeuw any later place will do; an olifant that is too early has to go.
    """
    assert dieren.rationales(("aap", "leeuw", "leeuw", "olifant", "kat", "leeuw")) == (
        (0, 1, 3, 5),
    )
    assert dieren.rationales(("leeuw", "kat", "olifant", "aap", "muis")) == ((3,), (4,))
    exception = [word for group, word in printed_lines() if group == "B"][9]
    assert [symbol for symbol in exception if symbol in RULE] == ["olifant", "leeuw"] * 2
    assert dieren.rationales(exception) == ((0,),)
    assert dieren.counterfactual(exception) == ("aap", *exception[1:])


def test_samples_follow_the_rule(dieren: RegularLanguage) -> None:
    for length in (1, 2, 3, 10, 16):
        sample = dieren.sample(np.random.default_rng(0), 200, [length])
        words = [dieren.vocabulary.decode(ids) for ids in sample.words.ids]
        assert sample.labels.tolist() == [follows_the_rule(word) for word in words]
        assert sample.labels.any() == (length >= 3)


def test_a_teacher_of_dutch_lines_gives_verdicts_alone() -> None:
    dutch = [name for name in LANGUAGES if name.startswith("dieren")]
    assert dutch == ["dieren", "dieren-gaps", "dieren_muis"]
    assert {language(name).default_objective for name in dutch} == {"verdict"}
    assert language("anbn").default_objective == "next-symbols"
