"""Symbols in order, with gaps: SP and PT, decided on the automaton."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
from jaxtyping import Bool

from interp.automata.subregular.semigroup import Table

MOST_LETTERS = 6
"""With more letters the window of a piecewise testable language is not decided: all sets of letters
are looked at."""
States = Bool[np.ndarray, " states"]
Pairs = Bool[np.ndarray, "states states"]


def _told_apart(delta: Table, final: States) -> Pairs:
    """Is there a word that the first state accepts and the second does not? [first, second]."""
    apart: Pairs = final[:, None] & ~final
    while True:
        before = apart
        for column in delta.T:
            apart = apart | apart[np.ix_(column, column)]
        if (apart == before).all():
            return apart


def strictly_piecewise(delta: Table, final: States) -> int | None:
    """The smallest k such that the language is strictly k-piecewise; None if it is so for no k.

    It is so if a word of the language without some of its symbols is one, too (Rogers et al. 2010;
    Haines 1969): no state accepts, after a symbol, what it does not accept before. The smallest k
    is the length of the longest forbidden word that is not forbidden without any one symbol.
    """
    apart = _told_apart(delta, final)
    if any(apart[column, np.arange(len(delta))].any() for column in delta.T):
        return None
    # The state after a word, and the states after the word without one of its symbols. If one of
    # these is the former, then what is forbidden after the word is so without the symbol.
    layer: set[tuple[int, frozenset[int]]] = {(0, frozenset())}
    longest = 1
    for k in count(1):
        after = {
            (int(delta[q, a]), frozenset(delta[[*without], a].tolist()) | {q})
            for q, without in layer
            for a in range(delta.shape[1])
        }
        after = {(q, others) for q, others in after if q not in others and final[[*others]].all()}
        if not after:
            return longest
        # A word that is rejected is so with anything after it: the rejecting state is dead.
        layer = {(q, without) for q, without in after if final[q]}
        longest = longest if len(layer) == len(after) else k
    raise AssertionError("unreachable")


def piecewise_testable(delta: Table, final: States) -> int | None:
    """The smallest k with which a piecewise testable language is k-piecewise testable.

    Two words x y and x a y have the same subsequences of up to k symbols if and only if x and x a
    have the same up to l, y and a y up to r, and l + r >= k; x and x a have the same up to l if and
    only if x is l words with alphabets that shrink or stay, and all hold a (Simon 1975; Sakarovitch
    and Simon 1983). None if there are too many letters.
    """
    states, letters = delta.shape
    if letters > MOST_LETTERS:
        return None
    first = np.arange(states) == 0
    ends = final[:, None] != final

    def after(reached: States, letter: int) -> States:
        return np.isin(np.arange(states), delta[reached, letter])

    def before(reached: Pairs, letter: int) -> Pairs:
        return reached[np.ix_(delta[:, letter], delta[:, letter])]

    moved = delta != np.arange(states)[:, None]  # [states, letters]
    forth = _depth(_chains(first, after, letters), moved, lambda reached, letter: reached)
    back = _depth(
        _chains(ends, before, letters),
        moved,
        lambda reached, letter: reached[np.arange(states), delta[:, letter]],
    )
    return max(1, int((forth + back + 1)[moved].max(initial=1)))


Step = Callable[[np.ndarray, int], np.ndarray]


def _depth(
    levels: Iterator[list[np.ndarray]], moved: Bool[np.ndarray, "states letters"], seen: Step
) -> np.ndarray:
    """The number of words in a chain that lead from or to each state that each letter moves.

    Args:
        levels: the reach of a chain, for each length and each set of letters (as bits), if the last
            word has exactly these letters.
        seen: a map from what is reached to the states.
    """
    depth = np.zeros(moved.shape, dtype=int)
    for length, level in enumerate(levels, start=1):
        reached = [
            seen(np.any([x for chosen, x in enumerate(level) if chosen >> a & 1], axis=0), a)
            for a in range(moved.shape[1])
        ]
        deep = np.stack(reached, axis=1) & moved
        if not deep.any():
            return depth
        depth[deep] = length
    raise AssertionError("unreachable")


def _chains(start: np.ndarray, step: Step, letters: int) -> Iterator[list[np.ndarray]]:
    """The reach of chains of 1, 2, ... words with shrinking alphabets, by the last alphabet.

    An alphabet may also stay.
    """
    sets = range(1 << letters)
    begins = [start] * len(sets)
    while True:
        level = [_reached(begins[chosen], step, chosen, letters) for chosen in sets]
        yield level
        begins = [np.any([level[c] for c in sets if c & s == s], axis=0) for s in sets]


def _reached(start: np.ndarray, step: Step, chosen: int, letters: int) -> np.ndarray:
    """The reach of the words with exactly the chosen letters."""
    parts = {0: start}
    queue = [0]
    for used in queue:
        for letter in range(letters):
            if chosen >> letter & 1:
                more = used | 1 << letter
                new = step(parts[used], letter)
                old = parts.get(more)
                if old is None or (new & ~old).any():
                    parts[more] = new if old is None else old | new
                    queue.append(more)
    return parts[chosen]
