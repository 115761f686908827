"""Regular languages, from a regular expression or any automaton of automata-lib."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from itertools import permutations
from typing import Literal

import numpy as np
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA

from models.languages.language import ChomskyType, FormalLanguage, VariableKind
from models.languages.recurrence import Recurrence
from models.languages.repairs import cheapest_sets
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

NearMiss = Literal["edit", "shuffle"]


class RegularLanguage(FormalLanguage):
    """The language of a deterministic finite automaton.

    Variables: ``state`` of the minimal complete automaton, numbered breadth first from the start
    (0) in the order of the symbols; ``accepting``; ``valid`` (1 while some continuation is
    accepted).
    """

    def __init__(
        self,
        name: str,
        dfa: DFA,
        symbols: Sequence[str],
        near_miss: NearMiss = "edit",
        objective: str = "next-symbols",
        shortcut: str | None = None,
        chomsky: ChomskyType = "regular",
    ) -> None:
        """
        Args:
            dfa: any DFA over ``symbols``; it is completed and minimised here.
            near_miss: how half of the words outside the language are made from a member: "edit"
                substitutes one position, "shuffle" puts all symbols in a random order. With
                ``hard`` in ``sample`` they are edited in any case.
            objective: becomes ``default_objective``.
            shortcut: a symbol that never moves the automaton; see ``Language.shortcut``.
            chomsky: "finite" where the automaton has finitely many words.
        """
        self.name = name
        self.chomsky: ChomskyType = chomsky
        self.vocabulary = Vocabulary(tuple(symbols))
        self.dfa: DFA = (
            dfa.to_complete(trap_state="trap").minify() if dfa.allow_partial else dfa.minify()
        )
        self.near_miss = near_miss
        self.default_objective = objective
        self.shortcut = shortcut
        self.variables: dict[str, VariableKind] = {
            "state": "category",
            "accepting": "category",
            "valid": "category",
        }
        self.delta, self.accepting = _table(self.dfa, self.vocabulary.symbols)
        # By label and length: how many continuations have this membership (rescaled), [states].
        self._weights = {
            label: Recurrence(ends.astype(np.float64), self._longer)
            for label, ends in ((True, self.accepting), (False, ~self.accepting))
        }

    @classmethod
    def from_regex(cls, name: str, regex: str, symbols: str) -> RegularLanguage:
        """The language of an expression in automata-lib's syntax, over one-letter symbols."""
        nfa = NFA.from_regex(regex, input_symbols=set(symbols))
        return cls(name, DFA.from_nfa(nfa), tuple(symbols))

    # -- the truth ------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        return f"a finite automaton of {len(self.delta)} states"

    @property
    def productions(self) -> tuple[str, ...]:
        """A nonterminal for each live state; S is the start."""
        names = ["S", *(f"Q{state}" for state in range(1, len(self.delta)))]
        rules = []
        for state in np.flatnonzero(self.live):
            rights = [
                f"{symbol!r} {names[target]}"
                for symbol, target in zip(self.vocabulary.symbols, self.delta[state], strict=True)
                if self.live[target]
            ]
            rights += [""] * bool(self.accepting[state])
            rules += [f"{names[state]} -> {right}".rstrip() for right in rights]
        return tuple(rules)

    @cached_property
    def live(self) -> np.ndarray:
        """States from which an accepting state can be reached, [states]."""
        live = self.accepting.copy()
        while (grown := live | live[self.delta].any(axis=1)).sum() > live.sum():
            live = grown
        return live

    @cached_property
    def inert(self) -> np.ndarray:
        """Ids of the symbols that never move the automaton: what they are decides nothing."""
        still = (self.delta == np.arange(len(self.delta))[:, None]).all(axis=0)
        return np.flatnonzero(still) + FIRST_SYMBOL_ID

    @cached_property
    def _follow(self) -> np.ndarray:
        """The tokens that may follow in each state, [states, vocabulary]."""
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

    def _costs(self, ids: np.ndarray, goal: np.ndarray) -> list[np.ndarray]:
        """Fewest substitutions from each position on to end in a goal state.

        Args:
            ids: the word, by number of the symbol from 0.
            goal: True for the states to end in, [states].

        Returns:
            [time + 1] arrays of [states]; infinite where no way leads to the goal.
        """
        costs = [np.where(goal, 0.0, np.inf)]
        for symbol in ids[::-1]:
            substitution = (np.arange(self.delta.shape[1]) != symbol).astype(np.float64)
            costs.append((substitution + costs[-1][self.delta]).min(axis=1))
        return costs[::-1]

    def _numbers(self, word: Word) -> np.ndarray:
        """The word by number of the symbol, from 0."""
        return np.array([self.vocabulary.ids[s] for s in word], dtype=np.int64) - FIRST_SYMBOL_ID

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        ids = self._numbers(word)
        costs = self._costs(ids, self.accepting)

        def step(at: int, state: int, change: bool) -> list[int]:
            row = self.delta[state]
            return np.delete(row, ids[at]).tolist() if change else [int(row[ids[at]])]

        return cheapest_sets(len(ids), 0, step, lambda at, state: float(costs[at][state]))

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        """Finds the fewest substitutions by dynamic programming over (position, state)."""
        ids = self._numbers(word)
        costs = self._costs(ids, self.accepting if not self.contains(word) else ~self.accepting)
        if not np.isfinite(costs[0][0]):
            raise LookupError(
                f"{self.name} has no word of length {len(word)} to change {' '.join(word)!r} into"
            )
        state, changed = 0, []
        for t, symbol in enumerate(ids):
            substitution = np.arange(self.delta.shape[1]) != symbol
            total = substitution + costs[t + 1][self.delta[state]]
            best = np.flatnonzero(total == costs[t][state])
            choice = int(best[0] if rng is None else rng.choice(best))
            changed.append(self.vocabulary.symbols[choice])
            state = self.delta[state, choice]
        return tuple(changed)

    # -- data -----------------------------------------------------------------------------------

    def _longer(self, weights: np.ndarray) -> np.ndarray:
        """The weights of continuations that are one symbol longer, [states]."""
        following = weights[self.delta].sum(axis=1)
        return np.asarray(following / max(following.max(), 1.0))

    def has(self, length: int, label: bool) -> bool:
        return length > 0 and bool(self._weights[label][length][0] > 0)

    def _continued(self, words: Words, shares: np.ndarray) -> np.ndarray | None:
        """Weights by what each state may still become: ``ways``, [symbols to come, states]."""
        longest = len(shares) - 1
        ways, logs = [self.accepting.astype(np.float64)], [0.0]  # rescaled, and by how much
        for _ in range(longest):
            counts = ways[-1][self.delta].sum(axis=1)
            size = max(float(counts.max()), 1.0)
            ways.append(counts / size)
            logs.append(logs[-1] + np.log(size))
        table, scale = np.array(ways), np.array(logs)
        states = self.states(words)
        weights = np.zeros((*states.shape, len(self.vocabulary)))
        drawn = np.flatnonzero(shares)
        for at in range(min(states.shape[1], longest + 1)):
            # What remains of each length, in the unit of the likeliest.
            lengths = drawn[drawn >= at]
            if not len(lengths):
                break
            unit = scale[lengths - at] - scale[lengths]
            per = shares[lengths] * np.exp(unit - unit.max()) / table[lengths, 0]
            last = lengths == at
            weights[:, at, END_ID] = self.accepting[states[:, at]] * per[last].sum()
            rest = lengths[~last] - at - 1
            if len(rest):
                factor = np.exp(scale[rest] - scale[rest + 1]) * per[~last]
                value = (factor[:, None] * table[rest]).sum(axis=0)
                weights[:, at, FIRST_SYMBOL_ID:] = value[self.delta[states[:, at]]]
        return weights

    def _uniform(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Draws each row evenly from all words of its length and membership."""
        longest = int(lengths.max(initial=0))
        # [label, symbols that remain, state]
        weights = np.stack(
            [np.stack(self._weights[label].up_to(longest)) for label in (False, True)]
        )
        ids = np.full((len(lengths), longest), END_ID, dtype=np.int64)
        state = np.zeros(len(lengths), dtype=np.int64)
        for t in range(longest):
            rows = np.flatnonzero(lengths > t)
            following = self.delta[state[rows]]
            rest = lengths[rows] - t - 1
            share = np.cumsum(
                weights[labels[rows].astype(int)[:, None], rest[:, None], following], axis=1
            )
            pick = (rng.random(len(rows)) * share[:, -1])[:, None] >= share
            symbol = pick.sum(axis=1)
            ids[rows, t] = symbol + FIRST_SYMBOL_ID
            state[rows] = following[np.arange(len(rows)), symbol]
        return Words(ids, lengths.astype(np.int64))

    @cached_property
    def _apart(self) -> np.ndarray:
        """True for the pairs of states that a word and its copy can be in, [states, states].

        The copy has one substitution; the pair is that of a position at or after it.
        """
        apart = np.zeros((len(self.delta), len(self.delta)), dtype=bool)
        for mine, its in permutations(self.delta.T, 2):
            apart[mine, its] = True
        while True:
            grown = apart.copy()
            word, copy = np.nonzero(apart)
            grown[self.delta[word], self.delta[copy]] = True
            if (grown == apart).all():
                return apart
            apart = grown

    @cached_property
    def _misses(self) -> Recurrence[tuple[np.ndarray, np.ndarray]]:
        """Numbers of continuations, by length, that end in a member and its near miss (rescaled).

        An entry holds two arrays: per state, the continuations that still contain the
        substitution, [states]; and per pair of states, those after the substitution, where the
        member and its copy read the same symbols, [states, states].
        """
        ends = self.accepting[:, None] & ~self.accepting & self._apart
        none = np.zeros(len(self.delta))
        return Recurrence((none, ends.astype(np.float64)), self._longer_misses)

    def _longer_misses(
        self, weights: tuple[np.ndarray, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        before, after = weights
        # [state, the member's symbol, the copy's symbol]
        split = after[self.delta[:, :, None], self.delta[:, None, :]]
        equal = np.trace(split, axis1=1, axis2=2)  # equal symbols are no substitution
        holding = before[self.delta].sum(axis=1) + split.sum(axis=(1, 2)) - equal
        shared = after[self.delta[:, None, :], self.delta[None, :, :]].sum(axis=2) * self._apart
        largest = max(holding.max(), shared.max()) or 1.0
        return holding / largest, shared / largest

    def has_near_miss(self, length: int) -> bool:
        return length > 0 and bool(self._misses[length][0][0] > 0)

    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Draws evenly from all pairs of a member and a substitution that leaves the language."""
        longest, size = int(lengths.max(initial=0)), len(self.vocabulary.symbols)
        before, after = (np.stack(w) for w in zip(*self._misses.up_to(longest), strict=True))
        same = np.eye(size, dtype=bool)  # the member's symbol is the copy's
        ids = np.full((len(lengths), longest), END_ID, dtype=np.int64)
        member, copy = np.zeros((2, len(lengths)), dtype=np.int64)
        substituted = np.zeros(len(lengths), dtype=bool)
        for t in range(longest):
            rows = np.flatnonzero(lengths > t)
            rest, done = (lengths[rows] - t - 1)[:, None, None], substituted[rows, None, None]
            to_member, to_copy = self.delta[member[rows]], self.delta[copy[rows]]
            split = after[rest, to_member[:, :, None], to_copy[:, None, :]]
            share = np.where(same, np.where(done, split, before[rest, to_member[:, :, None]]), 0.0)
            share += np.where(same | done, 0.0, split)
            share = np.cumsum(share.reshape(len(rows), -1), axis=1)
            pick = ((rng.random(len(rows)) * share[:, -1])[:, None] >= share).sum(axis=1)
            mine, its = pick // size, pick % size
            ids[rows, t] = its + FIRST_SYMBOL_ID
            member[rows] = to_member[np.arange(len(rows)), mine]
            copy[rows] = to_copy[np.arange(len(rows)), its]
            substituted[rows] |= mine != its
        return Words(ids, lengths.astype(np.int64))

    def _shuffled(self, rng: np.random.Generator, members: Words) -> Words:
        """The members' symbols in a random order."""
        key = np.where(members.mask, rng.random(members.ids.shape), np.inf)
        order = np.argsort(key, axis=1)
        return Words(np.take_along_axis(members.ids, order, axis=1), members.lengths)

    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Members, drawn evenly; and others, half of them made from a member (``near_miss``).

        The other half is drawn evenly. So is a word whose length allows no near miss, and one whose
        member is still in the language after eight shuffles.
        """
        words = self._uniform(rng, lengths, labels)
        near = self.has_near_miss if self.near_miss == "edit" else lambda n: self.has(n, True)
        possible = np.array([near(length) for length in lengths.tolist()], dtype=bool)
        rows = np.flatnonzero(~labels & possible & (rng.random(len(lengths)) < 0.5))
        if not len(rows):
            return words
        ids = words.ids.copy()
        if self.near_miss == "edit":
            missed = self.near_misses(rng, lengths[rows])
            ids[rows, : missed.ids.shape[1]] = missed.ids
            return Words(ids, words.lengths)
        members = self._uniform(rng, lengths[rows], np.ones(len(rows), dtype=bool))
        for _ in range(8):
            trial = self._shuffled(rng, members)
            out = ~self.labels(trial)
            ids[rows[out], : trial.ids.shape[1]] = trial.ids[out]
            rows, members = rows[~out], members[~out]
            if not len(rows):
                break
        return Words(ids, words.lengths)


def _table(dfa: DFA, symbols: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Transitions [states, symbols] and acceptance [states]; states are numbered breadth first."""
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
