"""All ways to repair a word with the fewest substitutions, as sets of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

State = TypeVar("State")

MOST_REPAIRS = 4096
"""The most sets of positions that are listed for a word."""


def cheapest_sets(
    length: int,
    start: State,
    step: Callable[[int, State, bool], Iterable[State]],
    cost: Callable[[int, State], float],
) -> tuple[tuple[int, ...], ...] | None:
    """The sets of positions at which the fewest substitutions lead to the goal.

    Every position is kept or changed. So a walk over the word holds, for each choice so far, all
    states that a reader may be in, and drops those from which the goal costs more than the fewest
    substitutions. No choice is a dead end, and no two choices are the same set.

    Args:
        length: the word's length; the other arguments know its symbols.
        start: the reader's first state.
        step: the states after a position, given the state before it and whether the symbol there
            is changed.
        cost: the fewest substitutions from a position on, in a state; infinite without a way.

    Returns:
        Positions from 0; all sets have one size. None if there are more than ``MOST_REPAIRS``.
    """
    fewest = cost(0, start)
    chosen: dict[frozenset[State], list[tuple[int, ...]]] = {frozenset([start]): [()]}
    for at in range(length):
        longer: dict[frozenset[State], list[tuple[int, ...]]] = {}
        for states, sets in chosen.items():
            # The same states may have been reached with more or fewer changes.
            for spent in {len(positions) for positions in sets}:
                same = [positions for positions in sets if len(positions) == spent]
                for change in (False, True):
                    reached = frozenset(
                        after
                        for before in states
                        for after in step(at, before, change)
                        if spent + change + cost(at + 1, after) == fewest
                    )
                    if reached:
                        tail = (at,) if change else ()
                        longer.setdefault(reached, []).extend(prefix + tail for prefix in same)
        chosen = longer
        if sum(map(len, chosen.values())) > MOST_REPAIRS:
            return None
    return tuple(sorted(positions for sets in chosen.values() for positions in sets))
