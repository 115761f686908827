"""Random regular expressions and automata: Python's ``re`` and plain simulation are the oracles."""

from __future__ import annotations

import re

import pytest
from automata.fa.dfa import DFA
from brute import Listed, distance, words_up_to
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.languages import RegularLanguage, Word

REGEXES = st.recursive(
    st.sampled_from("ab"),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
        inner.map(lambda r: f"({r})*"),
        inner.map(lambda r: f"({r})?"),
    ),
    max_leaves=6,
)


@st.composite
def automata(draw: st.DrawFn) -> tuple[DFA, tuple[str, ...]]:
    """A complete automaton of up to four states, some of them perhaps out of reach."""
    symbols = draw(st.sampled_from([("a",), ("a", "b"), ("b", "a"), ("kat", "hond", "aap")]))
    states = range(draw(st.integers(1, 4)))
    target = st.sampled_from(states)
    dfa = DFA(
        states=set(states),
        input_symbols=set(symbols),
        transitions={s: {symbol: draw(target) for symbol in symbols} for s in states},
        initial_state=0,
        final_states=draw(st.sets(target)),
    )
    return dfa, symbols


def accepts(dfa: DFA, word: Word) -> bool:
    state = dfa.initial_state
    for symbol in word:
        state = dfa.transitions[state][symbol]
    return state in dfa.final_states


@settings(max_examples=60)
@given(REGEXES)
def test_regular_expressions_mean_what_they_mean_in_python(regex: str) -> None:
    lang = RegularLanguage.from_regex("random", regex, "ab")
    assume(len(lang.delta) <= 6)  # a live prefix of 4 symbols then ends within 5 more
    rule = re.compile(regex)
    listed = Listed.by_rule("ab", lambda w: rule.fullmatch("".join(w)) is not None, 9)
    for word in words_up_to("ab", 4):
        assert lang.contains(word) == listed.contains(word), word
        assert lang.next_symbols(word) == listed.next_symbols(word), word


@settings(max_examples=60)
@given(automata())
def test_answers_of_random_automata(drawn: tuple[DFA, tuple[str, ...]]) -> None:
    dfa, symbols = drawn
    lang = RegularLanguage("random", dfa, symbols)
    longest = 3
    listed = Listed.by_rule(symbols, lambda word: accepts(dfa, word), longest + 4)
    for word in words_up_to(symbols, longest):
        state = lang.state(word)
        assert lang.next_symbols(word) == listed.next_symbols(word), word
        assert state["accepting"] == listed.contains(word)
        assert state["valid"] == listed.alive(word)
        fewest = listed.fewest_substitutions(word)
        if fewest is None:
            with pytest.raises(LookupError, match=r"to change '[^(]*' into"):
                lang.counterfactual(word)
        else:
            changed = lang.counterfactual(word)
            assert listed.contains(changed) != listed.contains(word)
            assert distance(word, changed) == fewest


@settings(max_examples=60)
@given(automata())
def test_states_are_the_residuals_numbered_breadth_first(
    drawn: tuple[DFA, tuple[str, ...]],
) -> None:
    """Myhill and Nerode: prefixes share a state if and only if the same continuations save them."""
    dfa, symbols = drawn
    lang = RegularLanguage("random", dfa, symbols)
    reach = 4  # two of at most four states differ on a word of at most three symbols
    listed = Listed.by_rule(symbols, lambda word: accepts(dfa, word), 2 * reach - 1)
    number: dict[tuple[bool, ...], int] = {}
    for word in words_up_to(symbols, reach - 1):
        residual = listed.residual(word, reach)
        assert lang.state(word)["state"] == number.setdefault(residual, len(number)), word


@settings(max_examples=60)
@given(automata())
def test_the_repairs_of_a_random_automaton_are_all_there(
    drawn: tuple[DFA, tuple[str, ...]],
) -> None:
    dfa, symbols = drawn
    lang = RegularLanguage("random", dfa, symbols)
    for word in words_up_to(symbols, 4):
        others = [w for w in words_up_to(symbols, 4) if len(w) == len(word) and accepts(dfa, w)]
        if accepts(dfa, word) or not others or not word:
            continue
        fewest = min(distance(word, other) for other in others)
        near = [other for other in others if distance(word, other) == fewest]
        sets = {tuple(i for i in range(len(word)) if word[i] != other[i]) for other in near}
        assert lang.rationales(word) == tuple(sorted(sets)), word


def test_a_partial_automaton_is_completed() -> None:
    partial = DFA(
        states={0, 1},
        input_symbols={"a", "b"},
        transitions={0: {"a": 1}, 1: {}},
        initial_state=0,
        final_states={1},
        allow_partial=True,
    )
    lang = RegularLanguage("only a", partial, "ab")
    assert [w for w in words_up_to("ab", 3) if lang.contains(w)] == [("a",)]
    assert lang.next_symbols(("b",)) == frozenset()
