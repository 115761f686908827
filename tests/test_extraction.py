"""Automata from teachers whose automaton is known, and the words for an automaton."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st

from interp.extraction import Accepts, Word, canonical, extract, regex, run
from models.languages import Language, RegularLanguage, language

AB = ("a", "b")


def teacher(lang: Language, asked: list[Sequence[Word]] | None = None) -> Accepts:
    """A network without a mistake."""

    def accepts(words: Sequence[Word]) -> np.ndarray:
        if asked is not None:
            asked.append(words)
        return lang.labels(lang.vocabulary.words(words))

    return accepts


def of_regex(pattern: str, symbols: str = "ab") -> RegularLanguage:
    return RegularLanguage.from_regex(pattern, pattern, symbols)


# -- learning -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    ["a+", "(ab)*", "b*(ab*ab*)*", "(a|b)*abb", "(a|b)*", "a(a|b)*b", "(a|b)*a(a|b)(a|b)"],
)
def test_the_teacher_s_own_automaton_comes_back(pattern: str) -> None:
    lang, asked = of_regex(pattern), []
    found = extract(teacher(lang, asked), AB, list(words_up_to("ab", 7)))
    assert found.dfa == lang.dfa
    assert len(found.dfa.states) == len(lang.dfa.states)
    assert (found.agrees, found.complete) == (1.0, True)
    times = Counter(word for batch in asked for word in batch)
    assert set(times.values()) == {1}
    assert found.queries == len(times)
    assert found.seconds >= 0


def test_no_word_at_all() -> None:
    found = extract(lambda words: np.zeros(len(words), dtype=bool), AB, list(words_up_to("ab", 4)))
    assert found.dfa.isempty()
    assert (len(found.dfa.states), found.agrees, found.complete) == (1, 1.0, True)


def test_dieren_has_four_states() -> None:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    sample = lang.sample(np.random.default_rng(0), 400, range(1, 11))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    words = [lang.vocabulary.decode(ids[:length]) for ids, length in rows]
    symbols = lang.vocabulary.symbols
    found = extract(teacher(lang), symbols, words)
    assert found.dfa == lang.dfa
    assert len(found.dfa.states) == 4
    assert describe(found.dfa, symbols) == "contains leeuw ... olifant ... leeuw in this order"


def test_no_automaton_fits_a_counting_language() -> None:
    """Each check word of another n forces another state, until the bound stops it."""
    lang = language("anbn")
    words = [tuple("a" * n + "b" * m) for n, m in product(range(13), repeat=2)]
    found = extract(teacher(lang), AB, words, max_states=6)
    assert not found.complete
    assert len(found.dfa.states) <= 6
    assert 0.5 < found.agrees < 1
    assert any(found.dfa.accepts_input(word) != lang.contains(word) for word in words)


def test_counting_modulo_a_number_is_found_out() -> None:
    """a^n b^m with n = m modulo 3 is right on all words with n - m = -1, 0 or 1: the automaton is
    asked for words of its own."""
    words = [tuple("a" * n + "b" * m) for n in range(10) for m in (n - 1, n, n + 1) if m >= 0]
    found = extract(teacher(language("anbn")), AB, [*words, *words_up_to("ab", 4)], max_states=12)
    assert not found.complete


def test_time_is_a_bound_too() -> None:
    lang = of_regex("(a|b)*a(a|b)(a|b)(a|b)")
    found = extract(teacher(lang), AB, list(words_up_to("ab", 6)), max_seconds=0.0)
    assert not found.complete
    assert found.dfa != lang.dfa


def test_running_an_automaton() -> None:
    lang = of_regex("a(a|b)*b")
    words = list(words_up_to("ab", 5))
    assert run(lang.dfa, words).tolist() == [lang.contains(word) for word in words]


# -- words for an automaton ---------------------------------------------------------------------


@st.composite
def automata(draw: st.DrawFn) -> DFA:
    states = range(draw(st.integers(1, 4)))
    target = st.sampled_from(states)
    return DFA(
        states=set(states),
        input_symbols=set(AB),
        transitions={s: {symbol: draw(target) for symbol in AB} for s in states},
        initial_state=0,
        final_states=draw(st.sets(target)),
    )


@settings(max_examples=100)
@given(automata())
def test_the_regular_expression_is_equivalent(dfa: DFA) -> None:
    expression = regex(dfa, AB)
    if expression == "∅":
        assert dfa.isempty()
    else:
        assert DFA.from_nfa(NFA.from_regex(expression, input_symbols=set(AB))) == dfa


@settings(max_examples=50)
@given(automata())
def test_longer_symbols_are_set_apart(dfa: DFA) -> None:
    names = {"a": "kat", "b": "aap"}
    renamed = DFA(
        states=dfa.states,
        input_symbols=set(names.values()),
        transitions={
            s: {names[x]: t for x, t in row.items()} for s, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )
    expression = regex(renamed, ("kat", "aap"))
    assert "kataap" not in expression
    assert "aapkat" not in expression
    letters = expression.replace("kat", "a").replace("aap", "b").replace(" ", "")
    assert letters == regex(dfa, AB)


@settings(max_examples=100)
@given(automata())
def test_the_canonical_automaton(dfa: DFA) -> None:
    """Minimal, equivalent, and the same for all automata of one language."""
    found = canonical(dfa, AB)
    assert found == dfa
    assert len(found.states) == len(dfa.minify().states)
    first = []
    for word in words_up_to("ab", 4):
        state = found.initial_state
        for symbol in word:
            state = found.transitions[state][symbol]
        if state not in first:
            first.append(state)
    assert first == list(range(len(found.states)))
    again = canonical(DFA.from_nfa(NFA.from_dfa(dfa)).to_complete(), AB)
    assert (again.transitions, again.final_states) == (found.transitions, found.final_states)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a|b|c)*", "every word"),
        ("(a|b|c)*b(a|b|c)*", "contains b"),
        ("(a|b|c)*a(a|b|c)*b(a|b|c)*", "contains a ... b in this order"),
        ("(a|b|c)*a(a|b|c)*b(a|b|c)*a(a|b|c)*", "contains a ... b ... a in this order"),
        ("(a|b|c)*ab(a|b|c)*", "contains a b side by side"),
        ("ca(a|b|c)*", "starts with c a"),
        ("(a|b|c)*cab", "ends with c a b"),
        ("bb*", "is one or more b, and nothing else"),
        ("b*", None),
        ("abc", None),
        ("(ab)*", None),
        ("(a|b|c)*a(b|c)*b(a|b|c)*|c", None),
    ],
)
def test_the_rule_in_words(pattern: str, words: str | None) -> None:
    assert describe(of_regex(pattern, "abc").dfa, ("a", "b", "c")) == words


def test_no_word_in_words() -> None:
    assert describe(DFA.empty_language({"a", "b"}), AB) == "no word"
    assert regex(DFA.empty_language({"a", "b"}), AB) == "∅"


def test_a_network_that_errs_now_and_then_keeps_its_small_automaton() -> None:
    """One verdict in five hundred is wrong: within the tolerance the rule is found all the same."""
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    truth = teacher(lang)

    def errs(words: Sequence[tuple[str, ...]]) -> np.ndarray:
        wrong = [len(word) > 5 and zlib.crc32(" ".join(word).encode()) % 500 == 0 for word in words]
        return truth(words) ^ np.array(wrong)

    sample = lang.sample(np.random.default_rng(0), 2000, range(1, 21))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    words = [lang.vocabulary.decode(ids[:length]) for ids, length in rows]
    symbols = lang.vocabulary.symbols
    found = extract(errs, symbols, words, max_states=30, tolerance=0.01)
    assert found.complete
    assert found.dfa == lang.dfa
    assert 0.99 < found.agrees < 1
    assert not extract(errs, symbols, words, max_states=30).complete
