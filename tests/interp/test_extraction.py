"""Automata from teachers whose automaton is known, and the words for an automaton."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from aalpy.learning_algs import run_RPNI
from aalpy.oracles import WMethodEqOracle
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from brute import words_up_to
from hypothesis import example, given, settings
from hypothesis import strategies as st

from interp.automata.equivalence import Word, _telling_apart, state_cover, w_method
from interp.automata.extraction import (
    Accepts,
    Teacher,
    as_dfa,
    canonical,
    extract,
    regex,
    run,
    toggled,
)
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


def test_no_word_at_all() -> None:
    found = extract(lambda words: np.zeros(len(words), dtype=bool), AB, list(words_up_to("ab", 4)))
    assert found.dfa.isempty()
    assert (len(found.dfa.states), found.agrees, found.complete) == (1, 1.0, True)


def test_dieren_has_five_states() -> None:
    lang = language("dieren")
    assert isinstance(lang, RegularLanguage)
    sample = lang.sample(np.random.default_rng(0), 400, range(1, 11))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    words = [lang.vocabulary.decode(ids[:length]) for ids, length in rows]
    symbols = lang.vocabulary.symbols
    found = extract(teacher(lang), symbols, words)
    assert found.dfa == lang.dfa
    assert len(found.dfa.states) == 5


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


@pytest.mark.parametrize("queries", [0, 1, 126, 127, 130])
def test_the_budget_is_a_number_of_words(queries: int) -> None:
    """No more words are asked; the best hypothesis so far is kept, and it is said why it ended."""
    lang, asked = of_regex("(a|b)*a(a|b)(a|b)(a|b)"), []
    words = list(words_up_to("ab", 6))
    found = extract(teacher(lang, asked), AB, words, queries=queries)
    assert (found.ended, found.complete, found.whole) == ("queries", False, False)
    assert found.queries == sum(map(len, asked)) <= queries
    assert found.dfa != lang.dfa
    if queries > len(words):  # the sample could be asked
        always = max(run(lang.dfa, words).mean(), 1 - run(lang.dfa, words).mean())
        assert found.agrees == (run(found.dfa, words) == run(lang.dfa, words)).mean() >= 1 - always


def test_the_best_hypothesis_is_kept_when_the_budget_ends() -> None:
    """With more words to ask it is never worse; in the end it is the language's own."""
    lang, words = of_regex("(a|b)*a(a|b)(a|b)(a|b)"), list(words_up_to("ab", 7))
    shares = []
    for queries in range(255, 1100, 60):
        found = extract(teacher(lang), AB, words, queries=queries)
        shares.append(found.agrees)
    assert shares == sorted(shares)
    assert (found.agrees, found.ended, found.dfa) == (1.0, "agrees", lang.dfa)


def test_a_slow_network_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """However late it is, no clock is read."""
    lang, words = of_regex("(a|b)*abb"), list(words_up_to("ab", 6))
    quiet = extract(teacher(lang), AB, words)
    clock = iter(range(0, 10**9, 10**4))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    assert extract(teacher(lang), AB, words) == quiet


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


def test_an_automaton_is_always_written_in_the_same_way() -> None:
    """Sets of texts have another order in each process: either branch could be written first."""
    code = """
from automata.fa.dfa import DFA
from interp.automata.extraction import regex
rows = [(1, 2, 0), (1, 3, 1), (3, 2, 2), (3, 3, 3)]
arrows = {q: dict(zip("xyz", row, strict=True)) for q, row in enumerate(rows)}
dfa = DFA(states=set(arrows), input_symbols=set("xyz"), transitions=arrows, initial_state=0,
          final_states={1, 2})
print(regex(dfa, "xyz"))
"""
    written = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "0123"
    }
    assert len(written) == 1


@settings(max_examples=50)
@given(automata())
def test_many_symbols_that_are_one_are_written_as_what_they_are_not(dfa: DFA) -> None:
    """Eleven symbols do what b does: "[^a]", or "." where a does the same."""
    symbols = "abcdefghijkl"
    wide = DFA(
        states=dfa.states,
        input_symbols=set(symbols),
        transitions={
            q: {"a": row["a"], **dict.fromkeys(symbols[1:], row["b"])}
            for q, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=dfa.final_states,
    )
    expression = regex(wide, symbols)
    assert not set(expression) & set(symbols[1:])
    if expression != "∅":
        spelled = expression.replace("[^a]", f"({'|'.join(symbols[1:])})")
        spelled = spelled.replace(".", f"({'|'.join(symbols)})")
        assert DFA.from_nfa(NFA.from_regex(spelled, input_symbols=set(symbols))) == wide


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


def test_no_word_in_words() -> None:
    assert regex(DFA.empty_language({"a", "b"}), AB) == "∅"


@pytest.mark.slow
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


# -- words that test a hypothesis ---------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100)
@given(automata())
@example(of_regex("aab(a|b)*").dfa)
@example(of_regex("abaabb").dfa)
def test_words_that_tell_any_two_states_apart(dfa: DFA) -> None:
    """No two states of the minimal automaton have the same verdicts on all of them."""
    dfa = dfa.minify()
    words = _telling_apart(dfa, AB)
    assert len(words) == len(set(words)) <= len(dfa.states)
    rows = {tuple(ends_well(dfa, state, word) for word in words) for state in dfa.states}
    assert len(rows) == len(dfa.states)
    if len(dfa.states) == 1:
        assert words == [()]


def ends_well(dfa: DFA, state: int, word: Word) -> bool:
    for symbol in word:
        state = dfa.transitions[state][symbol]
    return state in dfa.final_states


@settings(max_examples=60)
@given(automata(), st.integers(0, 2))
def test_the_w_method_is_aalpy_s(dfa: DFA, extra: int) -> None:
    """The same words as the peer makes: transition cover, middle, characterisation set."""
    dfa = dfa.minify()
    tests = w_method(dfa, AB, 10**6, 10**3, extra)
    assert tests.whole
    cover = list(state_cover(dfa, AB).values())
    crossed = [(*way, symbol) for way in cover for symbol in AB]
    peer = WMethodEqOracle(list(AB), None, 0)
    expected = set(peer.test_suite(crossed, extra + 1, _telling_apart(dfa, AB)))
    assert expected <= set(tests.words)
    states = {way + end for way in cover for end in _telling_apart(dfa, AB)}
    assert set(tests.words) == expected | states


@pytest.mark.slow
@settings(max_examples=100)
@given(automata(), automata())
def test_the_w_method_tells_automata_of_one_more_state(one: DFA, other: DFA) -> None:
    """Chow's theorem, by all automata that hypothesis draws."""
    one, other = one.minify(), other.minify()
    if len(other.states) <= len(one.states) + 1 and one != other:
        words = w_method(one, AB, 10**6, 10**3).words
        assert (run(one, words) != run(other, words)).any()


def test_words_of_the_w_method_within_bounds() -> None:
    """Not all of them; the short ones first, none too long."""
    dfa = of_regex("(a|b)*a(a|b)(a|b)").dfa
    every = w_method(dfa, AB, 10**6, 10**3)
    some, short = w_method(dfa, AB, 40, 10**3), w_method(dfa, AB, 10**6, 4)
    assert every.whole
    assert not some.whole
    assert not short.whole
    assert len(some.words) <= 40
    assert set(some.words) < set(every.words)
    assert short.words == [word for word in every.words if len(word) <= 4]


KINDS = [
    ("(a|b)*b(a|b)*", ["a" * n for n in range(8)]),
    ("a*ba*(ba*ba*)*", ["a" * n for n in range(8)]),
    ("b*|a(a|b)*b", ["b" * n for n in range(12)]),
]


@pytest.mark.parametrize(("pattern", "kind"), KINDS)
def test_the_w_method_sees_what_words_of_one_kind_hide(
    pattern: str, kind: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without words for each state learning ends with an automaton right on the kind alone."""
    lang, words = of_regex(pattern), [tuple(word) for word in kind]
    assert extract(teacher(lang), AB, words).dfa == lang.dfa
    monkeypatch.setattr("interp.automata.extraction.W_WORDS", 0)
    assert extract(teacher(lang), AB, words).dfa == lang.dfa
    monkeypatch.setattr("interp.automata.extraction.WAYS", 0)
    found = extract(teacher(lang), AB, words)
    assert found.complete
    assert found.dfa != lang.dfa
    assert run(found.dfa, words).tolist() == [lang.contains(word) for word in words]


# -- the teacher --------------------------------------------------------------------------------


def test_several_extractions_ask_each_word_once() -> None:
    """The teacher remembers; what each adds to its words is counted."""
    lang, asked = of_regex("(a|b)*abb"), []
    remembers = Teacher(teacher(lang, asked))
    words = list(words_up_to("ab", 6))
    first = extract(remembers, AB, words)
    known = len(remembers.known)
    again = extract(remembers, AB, [*words, *words_up_to("ab", 8)], tolerance=0.01)
    assert first.dfa == again.dfa == lang.dfa
    times = Counter(word for batch in asked for word in batch)
    assert set(times.values()) == {1}
    assert (first.queries, first.queries + again.queries) == (known, len(times))
    assert extract(remembers, AB, words).queries == 0


@pytest.mark.slow
@given(st.lists(st.lists(st.sampled_from(AB), max_size=4).map(tuple), max_size=12))
def test_a_teacher_answers_in_order_and_repeats_itself(words: list[Word]) -> None:
    lang, asked = of_regex("(ab)*"), []
    remembers = Teacher(teacher(lang, asked))
    for batch in (words, words[::-1], words + words):
        answers = remembers(batch)
        assert answers.dtype == bool
        assert answers.tolist() == [lang.contains(word) for word in batch]
    assert len(asked) <= 1
    assert all(len(batch) == len(set(batch)) for batch in asked)


# -- the empty word -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "smaller"),
    [
        ("(a|b)(a|b)*", "(a|b)*"),
        ("bb*", "b*"),
        ("a(a|b)*b|b(a|b)*a", None),
        ("(a|b)*a", None),
        ("(ab)*", None),
    ],
)
def test_the_empty_word_is_whichever_makes_the_smaller_automaton(
    pattern: str, smaller: str | None
) -> None:
    lang, words = of_regex(pattern), list(words_up_to("ab", 6))
    found = extract(teacher(lang), AB, words, empty=False)
    assert found.dfa == of_regex(smaller or pattern).dfa
    assert found.complete
    assert extract(teacher(lang), AB, words).dfa == lang.dfa


@settings(max_examples=100)
@given(automata())
def test_the_language_but_for_the_empty_word(dfa: DFA) -> None:
    other = toggled(dfa)
    words = list(words_up_to("ab", 5))
    differ = run(dfa, words) != run(other, words)
    assert [word for word, yes in zip(words, differ, strict=True) if yes] == [()]
    assert toggled(other) == dfa
    assert len(other.states) == len(other.minify().states)


# -- automata of AALpy --------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=100)
@given(automata(), st.integers(0, 4))
def test_a_partial_automaton_of_rpni_is_completed(dfa: DFA, longest: int) -> None:
    """It accepts what its own steps accept; what it has no step for, it rejects for good."""
    data = [(word, dfa.accepts_input(word)) for word in words_up_to("ab", longest)][::2]
    learned = run_RPNI(data, automaton_type="dfa", print_info=False)
    found = as_dfa(learned, AB)
    for word in words_up_to("ab", 5):
        state = learned.initial_state
        for symbol in word:
            state = state and state.transitions.get(symbol)
        assert found.accepts_input(word) == bool(state and state.is_accepting)
    assert all(set(row) == {"a", "b"} for row in found.transitions.values())


def test_a_complete_automaton_has_no_dead_state_added() -> None:
    learned = run_RPNI(
        [((), False), (("a",), True), (("a", "a"), False), (("b",), False), (("a", "b"), True)],
        automaton_type="dfa",
        input_completeness="self_loop",
        print_info=False,
    )
    assert as_dfa(learned, AB).states == {state.state_id for state in learned.states}
