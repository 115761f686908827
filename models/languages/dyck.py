"""Dyck languages with a bound on their depth: well-nested brackets of k kinds."""

from __future__ import annotations

from collections import deque

import numpy as np
from automata.fa.dfa import DFA

from models.languages.regular import RegularLanguage
from models.languages.vocabulary import FIRST_SYMBOL_ID, Words

BRACKETS = "()[]{}<>"


class DyckLanguage(RegularLanguage):
    """Well-nested brackets with at most ``max_depth`` open at once: a regular language.

    Variables: those of a regular language, whose ``state`` stands for the stack of open brackets,
    and ``depth``, the height of that stack (0 after a violation).
    """

    def __init__(self, name: str, pairs: int, max_depth: int) -> None:
        super().__init__(name, _stacks(pairs, max_depth), tuple(BRACKETS[: 2 * pairs]))
        self.variables = {**self.variables, "depth": "count"}
        self.depths = self._depths()
        self.rule = (
            "closes every bracket by one of its kind, the last that was opened first, with at most "
            f"{max_depth} open at once"
        )

    def _depths(self) -> np.ndarray:
        """The number of open brackets in each state, [states]; 0 in the dead state."""
        depths = np.zeros(len(self.delta), dtype=np.int64)
        queue, visited = deque([0]), {0}
        while queue:
            state = queue.popleft()
            for symbol, target in enumerate(self.delta[state]):
                if self.live[target] and target not in visited:
                    depths[target] = depths[state] + (1 if symbol % 2 == 0 else -1)
                    visited.add(int(target))
                    queue.append(int(target))
        return depths

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        traced = super().trace(words)
        return traced | {"depth": self.depths[traced["state"]]}

    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Members with one substitution; up to half of the words cross instead, such as ([)].

        No substitution ever makes brackets cross. A word that crosses is a member in which two
        neighbouring closing brackets of different kinds have changed places.
        """
        missed = super().near_misses(rng, lengths)
        if len(self.vocabulary.symbols) == 2:  # one kind of brackets cannot cross
            return missed
        rows = np.flatnonzero(rng.random(len(lengths)) < 0.5)
        if not len(rows):
            return missed
        members = self._uniform(rng, lengths[rows], np.ones(len(rows), dtype=bool)).ids
        symbol = members - FIRST_SYMBOL_ID
        closing = (symbol >= 0) & (symbol % 2 == 1)
        places = closing[:, :-1] & closing[:, 1:] & (symbol[:, :-1] != symbol[:, 1:])
        at = np.where(places, rng.random(places.shape), -1.0).argmax(axis=1)
        hits = np.flatnonzero(places.any(axis=1))
        rows, at, ids = rows[hits], at[hits], missed.ids.copy()
        ids[rows, : members.shape[1]] = members[hits]
        ids[rows, at], ids[rows, at + 1] = members[hits, at + 1], members[hits, at]
        return Words(ids, missed.lengths)


def _stacks(pairs: int, max_depth: int) -> DFA:
    """The automaton whose states are the stacks of at most ``max_depth`` brackets, and a trap."""
    symbols = BRACKETS[: 2 * pairs]
    transitions: dict[str, dict[str, str]] = {"trap": dict.fromkeys(symbols, "trap")}
    queue = deque([""])
    while queue:
        stack = queue.popleft()
        row = dict.fromkeys(symbols, "trap")
        for opening, closing in zip(symbols[::2], symbols[1::2], strict=True):
            if len(stack) < max_depth:
                row[opening] = stack + opening
                queue.append(stack + opening)
            if stack.endswith(opening):
                row[closing] = stack[:-1]
        transitions[stack] = row
    return DFA(
        states=set(transitions),
        input_symbols=set(symbols),
        transitions=transitions,
        initial_state="",
        final_states={""},
    )
