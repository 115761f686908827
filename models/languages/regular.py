"""Regular languages, from a regular expression or any automaton of automata-lib."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from models.languages.language import ChomskyType, FormalLanguage, Supervision, VariableKind
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

NearMiss = Literal["edit", "shuffle"]


class RegularLanguage(FormalLanguage):
    """The language of a deterministic finite automaton.

    Variables: ``state`` of the minimal complete automaton, numbered breadth first from the start
    (0) in the order of the symbols; ``accepting``; ``valid`` (1 while some continuation is
    accepted).
    """

    chomsky: ChomskyType = "regular"
    rationale_rule: ClassVar[str] = (
        "the positions that move the minimal automaton from one state to another"
    )

    def __init__(
        self,
        name: str,
        dfa: DFA,
        symbols: Sequence[str],
        near_miss: NearMiss = "edit",
        supervision: Supervision = "every",
        shortcut: str | None = None,
    ) -> None:
        """
        Args:
            dfa: any DFA over ``symbols``; it is completed and minimised here.
            near_miss: how half of the negatives are made from a member: "edit" one position, or
                "shuffle" all, which keeps the right symbols in a wrong order.
            supervision: what a teacher of this language gives by default.
            shortcut: a symbol that never moves the automaton, as ``Language.shortcut``.
        """
        self.name = name
        self.vocabulary = Vocabulary(tuple(symbols))
        self.dfa = (
            dfa.to_complete(trap_state="trap").minify() if dfa.allow_partial else dfa.minify()
        )
        self.near_miss = near_miss
        self.default_supervision = supervision
        self.shortcut = shortcut
        self.variables: dict[str, VariableKind] = {
            "state": "category",
            "accepting": "category",
            "valid": "category",
        }
        self.delta, self.accepting = _table(self.dfa, self.vocabulary.symbols)
        self._weights: dict[bool, list[np.ndarray]] = {}

    @classmethod
    def from_regex(cls, name: str, regex: str, symbols: str) -> RegularLanguage:
        """From a regular expression in automata-lib's syntax, over one-letter symbols."""
        nfa = NFA.from_regex(regex, input_symbols=set(symbols))
        return cls(name, DFA.from_nfa(nfa), tuple(symbols))

    # -- the truth ------------------------------------------------------------------------------

    @cached_property
    def live(self) -> np.ndarray:
        """States from which an accepting state can be reached, [states]."""
        live = self.accepting.copy()
        while (grown := live | live[self.delta].any(axis=1)).sum() > live.sum():
            live = grown
        return live

    @cached_property
    def _follow(self) -> np.ndarray:
        """What may follow in each state, [states, vocabulary]."""
        follow = np.zeros((len(self.delta), len(self.vocabulary)), dtype=bool)
        follow[:, END_ID] = self.accepting
        follow[:, FIRST_SYMBOL_ID:] = self.live[self.delta]
        return follow

    def states(self, words: Words) -> np.ndarray:
        """The automaton's state after every prefix, [batch, time + 1]."""
        states = np.zeros((len(words), words.ids.shape[1] + 1), dtype=np.int64)
        for t in range(words.ids.shape[1]):
            symbol = np.maximum(words.ids[:, t] - FIRST_SYMBOL_ID, 0)
            states[:, t + 1] = self.delta[states[:, t], symbol]
        return states

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        states = self.states(words)
        return {
            "state": states,
            "accepting": self.accepting[states].astype(np.int64),
            "valid": self.live[states].astype(np.int64),
        }

    def allowed(self, words: Words) -> np.ndarray:
        return self._follow[self.states(words)]

    def rationale(self, word: Sequence[str]) -> tuple[int, ...] | None:
        states = self.states(self.vocabulary.words([word]))[0]
        return tuple(int(i) for i in np.flatnonzero(states[1:] != states[:-1]))

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        """Fewest substitutions by dynamic programming over (position, state)."""
        ids = np.array([self.vocabulary.ids[s] for s in word], dtype=np.int64) - FIRST_SYMBOL_ID
        goal = self.accepting if not self.contains(word) else ~self.accepting
        cost = np.where(goal, 0.0, np.inf)
        costs = [cost]  # costs[t][state]: fewest substitutions from position t on
        substitution = np.ones((len(ids), len(self.vocabulary.symbols)))
        substitution[np.arange(len(ids)), ids] = 0
        for t in reversed(range(len(ids))):
            cost = (substitution[t] + cost[self.delta]).min(axis=1)
            costs.append(cost)
        costs.reverse()
        if not np.isfinite(costs[0][0]):
            raise LookupError(
                f"{self.name} has no word of length {len(word)} to change {word} into"
            )
        state, changed = 0, []
        for t in range(len(ids)):
            total = substitution[t] + costs[t + 1][self.delta[state]]
            best = np.flatnonzero(total == costs[t][state])
            choice = int(best[0] if rng is None else rng.choice(best))
            changed.append(self.vocabulary.symbols[choice])
            state = self.delta[state, choice]
        return tuple(changed)

    # -- data -----------------------------------------------------------------------------------

    def _weight(self, label: bool, length: int) -> np.ndarray:
        """Per state, how many words of this length lead to the wanted membership (rescaled)."""
        weights = self._weights.setdefault(
            label, [(self.accepting if label else ~self.accepting).astype(np.float64)]
        )
        while len(weights) <= length:
            following = weights[-1][self.delta].sum(axis=1)
            weights.append(following / max(following.max(), 1.0))
        return weights[length]

    def has(self, length: int, label: bool) -> bool:
        return length > 0 and bool(self._weight(label, length)[0] > 0)

    def _uniform(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Each row drawn evenly from all words of its length and membership."""
        longest = int(lengths.max(initial=0))
        self._weight(True, longest), self._weight(False, longest)
        # by label, symbols that remain, and state
        weights = np.stack(
            [np.stack(self._weights[label][: longest + 1]) for label in (False, True)]
        )
        ids = np.full((len(lengths), longest), END_ID, dtype=np.int64)
        state = np.zeros(len(lengths), dtype=np.int64)
        for t in range(longest):
            rows = np.flatnonzero(lengths > t)
            following = self.delta[state[rows]]
            left = lengths[rows] - t - 1
            share = np.cumsum(
                weights[labels[rows].astype(int)[:, None], left[:, None], following], axis=1
            )
            pick = (rng.random(len(rows)) * share[:, -1])[:, None] >= share
            symbol = pick.sum(axis=1)
            ids[rows, t] = symbol + FIRST_SYMBOL_ID
            state[rows] = following[np.arange(len(rows)), symbol]
        return Words(ids, lengths.astype(np.int64))

    def _missed(self, rng: np.random.Generator, members: Words) -> Words:
        """The members, each edited at one position or shuffled."""
        ids = members.ids.copy()
        if self.near_miss == "shuffle":
            key = np.where(members.mask, rng.random(ids.shape), np.inf)
            return Words(np.take_along_axis(ids, np.argsort(key, axis=1), axis=1), members.lengths)
        size = len(self.vocabulary.symbols)
        where = (rng.random(len(ids)) * members.lengths).astype(np.int64)
        rows = np.arange(len(ids))
        shift = rng.integers(1, size, size=len(ids)) if size > 1 else 0
        ids[rows, where] = (ids[rows, where] - FIRST_SYMBOL_ID + shift) % size + FIRST_SYMBOL_ID
        return Words(ids, members.lengths)

    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Members, drawn evenly; others, half near misses of a member and half drawn evenly.

        A near miss that stays in the language after eight tries, or has no member of its length to
        start from, is replaced by an evenly drawn word.
        """
        words = self._uniform(rng, lengths, labels)
        possible = np.array([self.has(int(length), True) for length in lengths], dtype=bool)
        open_rows = np.flatnonzero(~labels & possible & (rng.random(len(lengths)) < 0.5))
        if len(open_rows):
            ids = words.ids.copy()
            members = self._uniform(rng, lengths[open_rows], np.ones(len(open_rows), dtype=bool))
            for _ in range(8):
                tried = self._missed(rng, members)
                out = ~self.labels(tried)
                ids[open_rows[out], : tried.ids.shape[1]] = tried.ids[out]
                open_rows, members = open_rows[~out], members[~out]
                if not len(open_rows):
                    break
            words = Words(ids, words.lengths)
        return words


def _table(dfa: DFA, symbols: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Transitions [states, symbols] and acceptance [states], states numbered breadth first."""
    order = {dfa.initial_state: 0}
    queue = deque([dfa.initial_state])
    while queue:
        for symbol in symbols:
            successor = dfa.transitions[queue[0]][symbol]
            if successor not in order:
                order[successor] = len(order)
                queue.append(successor)
        queue.popleft()
    delta = np.array(
        [[order[dfa.transitions[s][c]] for c in symbols] for s in order], dtype=np.int64
    )
    accepting = np.array([s in dfa.final_states for s in order], dtype=bool)
    return delta, accepting
