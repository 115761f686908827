"""Every answer that a language gives, against the list of all its words up to a length."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pytest
from automata.fa.dfa import DFA
from brute import Listed, distance, words_up_to

from models.errors import UserError
from models.languages import (
    END,
    LANGUAGES,
    CountingLanguage,
    FormalLanguage,
    RegularLanguage,
    Word,
    language,
)


def blocks(symbols: str, reach: int) -> Listed:
    """s1^n s2^n ... for n = 1..reach."""
    members = (tuple(s for s in symbols for _ in range(n)) for n in range(1, reach + 1))
    return Listed(tuple(symbols), members)


def by_regex(symbols: str, pattern: str, reach: int) -> Listed:
    rule = re.compile(pattern)
    return Listed.by_rule(tuple(symbols), lambda w: rule.fullmatch("".join(w)) is not None, reach)


def contains_in_order(word: Word, pattern: Word) -> bool:
    rest = iter(word)
    return all(symbol in rest for symbol in pattern)


@dataclass(frozen=True)
class Case:
    """A language, the list of its words, and the length up to which all words are tried."""

    language: FormalLanguage
    listed: Listed
    longest: int

    @property
    def words(self) -> list[Word]:
        return list(words_up_to(self.listed.symbols, self.longest))


def _regular(name: str, symbols: str, pattern: str, longest: int, spare: int) -> Case:
    lang = RegularLanguage.from_regex(name, pattern, symbols)
    return Case(lang, by_regex(symbols, pattern, longest + spare), longest)


def _in_order() -> Case:
    """The Dutch rule over three letters."""
    rule = DFA.from_subsequence({"x", "y", "z"}, "xyx")
    listed = Listed.by_rule("xyz", lambda w: contains_in_order(w, tuple("xyx")), 9)
    return Case(RegularLanguage("in order", rule, "xyz", near_miss="shuffle"), listed, 5)


CASES = [
    Case(language("an"), by_regex("ab", "a+", 8), 7),  # type: ignore[arg-type]
    Case(language("anbn"), blocks("ab", 8), 7),  # type: ignore[arg-type]
    Case(language("anbncn"), blocks("abc", 7), 6),  # type: ignore[arg-type]
    Case(CountingLanguage("anbncndn", "abcd"), blocks("abcd", 6), 4),
    Case(CountingLanguage("a alone", "a"), blocks("a", 8), 6),
    _regular("parity", "ab", "b*(ab*ab*)*", 6, 2),
    _regular("first a, last b", "ab", "a(a|b)*b", 6, 2),
    _regular("(ab)*", "ab", "(ab)*", 7, 2),
    _regular("finite", "abc", "ab|ba|cab|c", 5, 2),
    _regular("everything", "ab", "(a|b)*", 5, 1),
    _in_order(),
]


@pytest.fixture(params=CASES, ids=lambda case: case.language.name)
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_contains(case: Case) -> None:
    for word in case.words:
        assert case.language.contains(word) == case.listed.contains(word), word


def test_next_symbols_are_those_that_some_word_goes_on_with(case: Case) -> None:
    for word in case.words:
        assert case.language.next_symbols(word) == case.listed.next_symbols(word), word


def test_batches_give_the_answers_of_single_words(case: Case) -> None:
    """Words of all lengths in one padded batch; every prefix of every word."""
    words = case.words
    batch = case.language.vocabulary.words(words)
    allowed, traced = case.language.allowed(batch), case.language.trace(batch)
    assert set(traced) == set(case.language.variables)
    known = {}
    for word in words:  # every prefix of a word is itself one of the words
        known[word] = (case.language.next_symbols(word), case.language.state(word))
    for row, word in enumerate(words):
        for end in range(len(word) + 1):
            follow = case.language.vocabulary.decode(np.flatnonzero(allowed[row, end]))
            state = {name: int(values[row, end]) for name, values in traced.items()}
            assert (frozenset(follow), state) == known[word[:end]], (word, end)


def test_valid_is_one_while_a_word_can_still_come_of_it(case: Case) -> None:
    for word in case.words:
        assert case.language.state(word)["valid"] == case.listed.alive(word), word


def test_counterfactual_is_the_nearest_word_of_the_other_membership(case: Case) -> None:
    rng = np.random.default_rng(0)
    for word in case.words:
        fewest = case.listed.fewest_substitutions(word)
        if fewest is None:
            with pytest.raises(LookupError):
                case.language.counterfactual(word)
            continue
        for changed in (
            case.language.counterfactual(word),
            case.language.counterfactual(word),
            case.language.counterfactual(word, rng),
        ):
            assert case.listed.contains(changed) != case.listed.contains(word), (word, changed)
            assert distance(word, changed) == fewest, (word, changed)
        assert case.language.counterfactual(word) == case.language.counterfactual(word)


@pytest.mark.parametrize(
    ("name", "word"),
    [("anbn", "aaabbb"), ("an", "aaaa"), ("anbncn", "aabbcc")],
)
def test_a_generator_draws_among_equally_near_counterfactuals(name: str, word: str) -> None:
    rng = np.random.default_rng(0)
    drawn = {language(name).counterfactual(tuple(word), rng) for _ in range(50)}
    assert len(drawn) > 1


def test_lengths_at_which_there_are_words(case: Case) -> None:
    lengths = range(case.longest + 1)
    listed = {
        wanted: [
            n
            for n in lengths
            if n and any(case.listed.contains(w) == wanted for w in case.words if len(w) == n)
        ]
        for wanted in (True, False)
    }
    assert case.language.positive_lengths(lengths) == listed[True]
    assert [n for n in lengths if case.language.has(n, False)] == listed[False]


def test_the_example_is_a_short_member(case: Case) -> None:
    word = case.language.example()
    assert case.listed.contains(word)
    assert word == case.language.example()


def test_unknown_symbols_are_refused_in_one_line(case: Case) -> None:
    for ask in (case.language.contains, case.language.next_symbols, case.language.counterfactual):
        with pytest.raises(UserError, match=r"^unknown symbol '\?': use only [^\n]*$"):
            ask((case.language.vocabulary.symbols[0], "?"))


def test_the_empty_word() -> None:
    assert language("anbn").next_symbols(()) == {"a"}
    assert language("an").next_symbols(()) == {"a"}
    assert RegularLanguage.from_regex("all", "(a|b)*", "ab").next_symbols(()) == {"a", "b", END}


def test_registry() -> None:
    kinds = {name: language(name).chomsky for name in LANGUAGES}
    assert kinds.pop("an") == kinds.pop("dieren") == "regular"
    assert kinds.pop("anbn") == "context-free"
    assert kinds.pop("anbncn") == "context-sensitive"
    with pytest.raises(UserError, match=r"^unknown language 'nb': choose one of an, anbn, [^\n]*$"):
        language("nb")
