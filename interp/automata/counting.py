"""Does an automaton count? The automata that are right up to a length, and how they grow with it.

A network that compares two counts has no finite automaton. What is learned from words up to a
length counts as far as these words go, and it is wrong beyond. It shows in its states: an automaton
that need only be right on shorter words makes do with fewer. For a regular language this growth
ends as soon as the words are long enough to tell all states apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

from automata.fa.dfa import DFA

from interp.automata.equivalence import state_cover

FEWEST_STATES = 5
"""An automaton of fewer states is not suspected: it counts to three at most."""
SHORTEST = 8
"""Lines must have so many symbols before growth with their length is looked at."""


def _cover_states(dfa: DFA, symbols: Sequence[str], length: int) -> int:
    """The fewest states of an automaton that gives the same verdicts on words up to a length.

    It is a minimal cover automaton (Campeanu, Santean and Yu 2001). Two states may be one if no
    suffix tells them apart that fits behind the words that lead to both.

    Args:
        dfa: a minimal complete automaton.
        symbols: the alphabet.
        length: length of the longest words that count.
    """
    level = {state: len(way) for state, way in state_cover(dfa, symbols).items()}
    shortest = _shortest_apart(dfa, symbols)
    kept: list[Any] = []
    for state in sorted(level, key=lambda q: (level[q], str(q))):  # near states first: it is exact
        if level[state] <= length and all(
            level[state] + shortest[frozenset((state, other))] <= length for other in kept
        ):
            kept.append(state)
    return len(kept)


def growth(dfa: DFA, symbols: Sequence[str], longest: int) -> dict[int, int]:
    """The states of an automaton that is right up to half, three quarters and all of a length."""
    lengths = sorted({longest // 2, 3 * longest // 4, longest})
    return {length: _cover_states(dfa, symbols, length) for length in lengths}


def counts_on(dfa: DFA, symbols: Sequence[str], longest: int) -> bool:
    """Do the states of an automaton still grow with the words where the lines end?

    Then it may count, and nothing says that its states are enough for longer words. Lines of fewer
    than eight symbols, and automata of fewer than five states, cannot tell.
    """
    states = list(growth(dfa, symbols, longest).values())
    enough = len(dfa.states) >= FEWEST_STATES and longest >= SHORTEST
    return enough and all(fewer < more for fewer, more in pairwise(states))


def _shortest_apart(dfa: DFA, symbols: Sequence[str]) -> dict[frozenset[Any], int]:
    """The length of the shortest suffix that tells two states apart, for every pair of states."""
    states = sorted(dfa.states, key=str)
    pairs = [frozenset(pair) for pair in combinations(states, 2)]
    apart = {p: 0 for p in pairs if len(p & dfa.final_states) == 1}
    moves = {
        p: {frozenset(dfa.transitions[state][symbol] for state in p) for symbol in symbols}
        for p in pairs
    }
    for length in range(1, len(states) + 1):
        parted = {p for p in pairs if p not in apart and any(after in apart for after in moves[p])}
        apart |= dict.fromkeys(parted, length)
    return apart
