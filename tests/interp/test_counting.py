"""Automata that are right up to a length, against brute force, and which of them may count."""

from __future__ import annotations

from itertools import combinations

import pytest
from automata.fa.dfa import DFA
from brute import words_up_to
from hypothesis import given, settings
from hypothesis import strategies as st
from test_extraction import automata, of_regex

from interp.automata.counting import _cover_states, counts_on, growth
from interp.automata.equivalence import state_cover
from interp.automata.rules import Families

AB = ("a", "b")


def compared(most: int) -> DFA:
    """More a than b, as far as a difference of ``most``: what is learned from short lines."""
    states = range(-most, most + 1)
    return DFA(
        states=set(states),
        input_symbols=set(AB),
        transitions={q: {"a": min(q + 1, most), "b": max(q - 1, -most)} for q in states},
        initial_state=0,
        final_states=set(range(1, most + 1)),
    ).minify()


def apart(dfa: DFA, one: int, other: int, level: dict[int, int], length: int) -> bool:
    """Do two states differ on a suffix that fits behind the words that lead to both?"""
    room = length - max(level[one], level[other])
    return any(ends(dfa, one, w) != ends(dfa, other, w) for w in words_up_to("ab", max(room, -1)))


def ends(dfa: DFA, state: int, word: tuple[str, ...]) -> bool:
    for symbol in word:
        state = dfa.transitions[state][symbol]
    return state in dfa.final_states


@settings(max_examples=60)
@given(automata(), st.integers(0, 4))
def test_states_that_a_length_tells_apart(dfa: DFA, length: int) -> None:
    """As many as the largest set of states of which any two differ, by all such sets."""
    dfa = dfa.minify()
    level = {q: len(way) for q, way in state_cover(dfa, AB).items()}
    near = [q for q in level if level[q] <= length]
    largest = max(
        size
        for size in range(1, len(near) + 1)
        for some in combinations(near, size)
        if all(apart(dfa, p, q, level, length) for p, q in combinations(some, 2))
    )
    assert _cover_states(dfa, AB, length) == largest


def test_long_words_tell_all_states_apart() -> None:
    for pattern in ("(a|b)*a(a|b)(a|b)", "a*b(ab)*", "(ab)*"):
        dfa = of_regex(pattern).dfa.minify()
        assert _cover_states(dfa, AB, 2 * len(dfa.states)) == len(dfa.states)


@pytest.mark.parametrize(("most", "longest"), [(4, 8), (6, 12), (8, 16)])
def test_a_counter_grows_to_the_end(most: int, longest: int) -> None:
    """Its states are as many as the lines can tell apart: longer lines need more."""
    assert counts_on(compared(most), AB, longest)
    states = list(growth(compared(most), AB, longest).values())
    assert states == sorted(set(states))
    assert list(growth(compared(most), AB, longest)) == [longest // 2, 3 * longest // 4, longest]


@pytest.mark.parametrize(
    "dfa",
    [
        of_regex("(a|b)*a(a|b)(a|b)").dfa,
        of_regex("b*(ab*ab*ab*ab*ab*)*").dfa,
        Families(AB).at_most(5, "a").dfa,
        Families(AB).same_ends().dfa,
        of_regex("a*").dfa,
    ],
)
def test_a_regular_language_stops_growing(dfa: DFA) -> None:
    assert not counts_on(dfa.minify(), AB, 12)


def test_short_lines_cannot_tell() -> None:
    assert not counts_on(compared(3), AB, 6)
