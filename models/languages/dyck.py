"""Dyck languages with a bound on their depth: well-nested brackets of k kinds."""

from __future__ import annotations

from collections import deque

import numpy as np
from automata.fa.dfa import DFA

from models.languages.regular import RegularLanguage
from models.languages.vocabulary import Words

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

    def _depths(self) -> np.ndarray:
        """How many brackets are open in each state, [states]; 0 in the dead state."""
        depths = np.zeros(len(self.delta), dtype=np.int64)
        queue, seen = deque([0]), {0}
        while queue:
            state = queue.popleft()
            for symbol, target in enumerate(self.delta[state]):
                if self.live[target] and target not in seen:
                    depths[target] = depths[state] + (1 if symbol % 2 == 0 else -1)
                    seen.add(int(target))
                    queue.append(int(target))
        return depths

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        traced = super().trace(words)
        return traced | {"depth": self.depths[traced["state"]]}


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
