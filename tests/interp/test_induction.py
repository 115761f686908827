"""From labelled lines and a teacher to the rule that was planted in them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import distance
from test_extraction import of_regex, teacher

from interp.automata.equivalence import Word
from interp.automata.evidence import (
    automaton_bits,
    constant_bits,
    exception_bits,
    leftovers,
    rule_bits,
)
from interp.automata.extraction import Accepts, Teacher, run
from interp.automata.induction import (
    TOLERANCES,
    Search,
    induce,
    weighed,
)
from interp.automata.rule_search import same
from interp.automata.rules import Families, Rule
from interp.automata.words_near import telling, words_near
from models.languages import RegularLanguage, language

ABC = ("a", "b", "c")
SYMBOLS = tuple("abcdefgh")
F = Families(SYMBOLS)
SEARCH = Search(words=400, max_states=12, queries=5000)

PLANTED = [
    F.contains("a", "b", "a"),
    F.side_by_side("c", "c"),
    F.even("e"),
    F.before("a", "b"),
    F.starts("a") & F.ends("b"),
    F.contains("f") ^ F.ends("g"),
]


def planted(rule: Rule, lengths: Sequence[int], count: int = 800) -> tuple[list[Word], np.ndarray]:
    """Lines in the language and near misses, and their labels."""
    lang = RegularLanguage("planted", rule.dfa, SYMBOLS)
    sample = lang.sample(np.random.default_rng(0), count, lengths)
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    return [lang.vocabulary.decode(ids[:size]) for ids, size in rows], sample.labels


def knows(dfa: DFA) -> Accepts:
    return lambda words: run(dfa, words)


# -- what comes back ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.text)
def test_a_planted_rule_comes_first(rule: Rule) -> None:
    """No line contradicts it, and its code is the shortest."""
    lines, labels = planted(rule, range(1, 11))
    made = induce(knows(rule.dfa), SYMBOLS, lines, labels, SEARCH)
    best = made.found[0]
    assert same(best.dfa, rule.dfa)
    assert best.rule is not None
    assert same(best.rule.dfa, rule.dfa)
    assert best.rule.size <= rule.size
    assert (best.way, best.wrong, best.lines, best.agrees) == ("automaton", 0, 800, 1.0)
    assert best.wrong == 0
    assert best.bits < made.constant
    assert [one.bits for one in made.found] == sorted(one.bits for one in made.found)
    for index, one in enumerate(made.found):
        assert all(one.dfa != other.dfa for other in made.found[:index])
        expected = (run(one.dfa, made.asked) == run(rule.dfa, made.asked)).mean()
        assert one.agrees == pytest.approx(expected)
        assert one.agrees >= 1 - TOLERANCES[0]
    assert set(made.asked) <= set(made.teacher.known)


@pytest.mark.parametrize("rule", PLANTED[::2], ids=lambda rule: rule.text)
def test_wrong_labels_do_not_hide_it(rule: Rule) -> None:
    """One label in ten is turned round: the lines that contradict the rule are these, as noise."""
    lines, labels = planted(rule, range(1, 11))
    turned = np.random.default_rng(1).random(800) < 0.1
    made = induce(knows(rule.dfa), SYMBOLS, lines, labels ^ turned, SEARCH)
    best = made.found[0]
    assert same(best.dfa, rule.dfa)
    assert best.wrong == turned.sum()
    assert best.leftovers.p >= 0.05
    assert best.bits < made.constant


@pytest.mark.slow
@pytest.mark.parametrize("rule", [*PLANTED[1::2], F.same_ends()], ids=lambda rule: rule.text)
def test_a_network_that_knows_words_of_one_length(rule: Rule) -> None:
    """At all other lengths it answers at random: no automaton of all words fits, a family does."""

    def accepts(words: Sequence[Word]) -> np.ndarray:
        known = run(rule.dfa, words)
        chance = np.array([crc32("".join(word).encode()) % 2 == 0 for word in words])
        return np.where([len(word) == 10 for word in words], known, chance)

    lines, labels = planted(rule, [10])
    made = induce(accepts, SYMBOLS, lines, labels, SEARCH)
    best = made.found[0]
    assert not made.learned.complete
    assert best.way == "families"
    assert best.rule is not None
    assert same(best.dfa, rule.dfa)
    assert (best.wrong, best.agrees) == (0, 1.0)
    assert {len(word) for word in made.asked} == {10}


@pytest.mark.parametrize("labelled_by", [0, 1])
def test_the_labels_have_the_last_word(labelled_by: int) -> None:
    """The network makes an exception of ten lines: which rule comes first, their labels decide."""
    rules = F.even("e"), F.even("e") | F.starts("h", "h")
    lines, _ = planted(rules[0], [10], 400)
    lines = [("a", *line[1:]) for line in lines]
    lines[:10] = [("h", "h", "e", *(s.replace("e", "a") for s in line[3:])) for line in lines[:10]]
    labels = run(rules[labelled_by].dfa, lines)
    made = induce(knows(rules[1].dfa), SYMBOLS, lines, labels, SEARCH)
    first, second = rules[labelled_by], rules[1 - labelled_by]
    assert same(made.found[0].dfa, first.dfa)
    (other,) = [one for one in made.found if same(one.dfa, second.dfa)]
    assert (made.found[0].wrong, other.wrong) == (0, 10)
    assert other.bits > made.found[0].bits


@pytest.mark.slow
def test_a_network_that_errs() -> None:
    """On 1% of the words: no automaton explains the errors too, and none of them is a rule's."""
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    right, symbols = teacher(lang), lang.vocabulary.symbols

    def errs(words: Sequence[Word]) -> np.ndarray:
        return right(words) ^ np.array([crc32(" ".join(w).encode()) % 100 == 0 for w in words])

    sample = lang.sample(np.random.default_rng(0), 1000, [10])
    lines = [lang.vocabulary.decode(ids) for ids in sample.words.ids]
    search = Search(words=400, max_states=6, queries=5000)
    best = induce(errs, symbols, lines, sample.labels, search).found[0]
    assert same(best.dfa, lang.dfa)
    assert best.rule is not None
    assert best.wrong == 0
    assert 0.98 < best.agrees < 1


@pytest.mark.parametrize("answer", [True, False])
def test_a_network_that_always_says_the_same_knows_no_rule(answer: bool) -> None:
    """The labels are random: nothing is shorter than listing the rarer ones."""
    rng = np.random.default_rng(0)
    lines, _ = planted(PLANTED[0], range(1, 11))
    made = induce(
        lambda words: np.full(len(words), answer), SYMBOLS, lines, rng.random(800) < 0.45, SEARCH
    )
    assert made.found
    assert made.found[0].rule is not None
    assert made.found[0].rule.text == ("is any word" if answer else "is no word")
    assert all(one.bits >= made.constant for one in made.found)


def test_random_labels_of_a_network_that_knows_a_rule() -> None:
    """The rule is found, and explains nothing: its code is longer than that of no rule."""
    lines, _ = planted(PLANTED[1], range(1, 11))
    labels = np.random.default_rng(2).random(800) < 0.5
    made = induce(knows(PLANTED[1].dfa), SYMBOLS, lines, labels, SEARCH)
    assert same(made.found[0].dfa, PLANTED[1].dfa)
    assert all(one.bits > made.constant for one in made.found)


def test_nothing_is_found_where_nothing_fits() -> None:
    """A network that answers every word at random."""
    lines, labels = planted(PLANTED[0], range(4, 11))

    def chance(words: Sequence[Word]) -> np.ndarray:
        return np.array([crc32("".join(word).encode()) % 2 == 0 for word in words])

    made = induce(chance, SYMBOLS, lines, labels, Search(words=400, max_states=8, queries=3000))
    assert made.found == ()
    assert not made.learned.complete
    assert len(made.learned.dfa.states) <= 8


# -- code lengths -------------------------------------------------------------------------------


def test_an_automaton_is_weighed_by_its_rule_or_its_table() -> None:
    rule = Families(ABC).contains("a", "b")
    lines = [tuple(w) for w in ("ab", "cab", "ba", "aab", "c", "bca", "acb", "abc")]
    labels = np.array([True, True, False, False, False, True, True, True])
    named = weighed(rule.dfa, ABC, lines, labels, rule, "automaton", 0.5)
    assert (named.wrong, named.lines, named.way, named.agrees) == (2, 8, "automaton", 0.5)
    assert named.bits == pytest.approx(rule_bits(rule, ABC) + exception_bits(8, 2))
    assert named.leftovers == leftovers(lines, labels, run(rule.dfa, lines), ABC)
    assert named.dfa == rule.dfa
    assert named.dfa.initial_state == 0
    assert named.dfa.states == {0, 1, 2}
    table = weighed(rule.dfa, ABC, lines, labels, None, "a rival")
    assert table.bits == pytest.approx(automaton_bits(rule.dfa, ABC) + exception_bits(8, 2))
    assert np.isnan(table.agrees)


def test_the_code_without_a_rule_lists_the_rarer_label() -> None:
    labels = np.array([True] * 3 + [False] * 7)
    assert constant_bits(labels) == constant_bits(~labels) == exception_bits(10, 3)
    assert constant_bits(np.ones(5, dtype=bool)) == exception_bits(5, 0)


# -- words that the network is asked for --------------------------------------------------------


@pytest.mark.parametrize("lengths", [[10], [1], [1, 2, 3], [2, 7]])
def test_words_near_the_lines_have_their_lengths(lengths: list[int]) -> None:
    """Lines, lines with one symbol changed, random words, and words of at most four runs."""
    rng = np.random.default_rng(0)
    lines = [tuple(rng.choice(SYMBOLS, rng.choice(lengths)).tolist()) for _ in range(300)]
    words = words_near(lines, SYMBOLS, 400, 0)
    assert len(words) == len(set(words)) <= 400
    assert {len(word) for word in words} == set(lengths)
    assert {symbol for word in words for symbol in word} <= set(SYMBOLS)
    assert words == words_near(lines, SYMBOLS, 400, 0)
    if lengths == [10]:
        assert words != words_near(lines, SYMBOLS, 400, 1)
        gaps = np.array([min(distance(word, line) for line in lines) for word in words])
        assert (gaps == 0).sum() == pytest.approx(100, abs=25)
        assert (gaps == 1).sum() == pytest.approx(100, abs=25)
        runs = np.array([1 + sum(x != y for x, y in pairwise(w)) for w in words])
        assert (runs <= 4).sum() == pytest.approx(100, abs=25)
        assert ((gaps > 1) & (runs > 4)).sum() == pytest.approx(100, abs=25)


def test_few_lines_are_all_among_the_words() -> None:
    lines = [tuple("abc"), tuple("ca"), tuple("b")]
    words = words_near(lines, ABC, 100, 0)
    assert set(lines) <= set(words)
    assert {len(word) for word in words} == {1, 2, 3}


# -- symbols that tell --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "symbols"),
    [
        (F.contains("a", "b", "a"), ["a", "b"]),
        (F.even("e"), ["e"]),
        (F.at_least(3, "d"), ["d"]),
        (F.side_by_side("c", "g"), ["c", "g"]),
        (F.contains("h") & ~F.contains("b"), ["b", "h"]),
    ],
    ids=lambda value: value.text if isinstance(value, Rule) else None,
)
def test_the_symbols_that_decide_are_told(rule: Rule, symbols: list[str]) -> None:
    lines, _ = planted(rule, [10])
    asked = Teacher(knows(rule.dfa))
    assert set(telling(asked, lines, SYMBOLS)) >= set(symbols)
    assert telling(asked, lines, SYMBOLS, most=len(symbols)) == symbols


def test_of_the_animals_leeuw_and_olifant_tell() -> None:
    lang = language("dieren")
    sample = lang.sample(np.random.default_rng(0), 1000, [10])
    lines = [lang.vocabulary.decode(ids) for ids in sample.words.ids]
    found = telling(Teacher(teacher(lang)), lines, lang.vocabulary.symbols)
    assert found == ["leeuw", "olifant"]


def test_nothing_tells_where_the_answer_is_always_the_same() -> None:
    lines, _ = planted(PLANTED[0], [10])
    assert telling(Teacher(lambda words: np.ones(len(words), dtype=bool)), lines, SYMBOLS) == []
    one = Teacher(teacher(of_regex("(aa)*", "a")))
    assert telling(one, [("a",), ("a", "a")], ("a",)) == [], "there is no other symbol"
