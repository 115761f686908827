"""The shuffle of several Dyck-1 languages: each kind of bracket balanced by itself."""

from __future__ import annotations

from itertools import pairwise, product
from math import inf

import numpy as np

from models.languages.dyck import BRACKETS
from models.languages.language import ChomskyType, FormalLanguage, VariableKind
from models.languages.recurrence import Recurrence
from models.languages.repairs import cheapest_sets
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

Depths = tuple[int, ...]


class ShuffleLanguage(FormalLanguage):
    """All interleavings of balanced words, one word for each kind of bracket: "([)]" is in it.

    Variables: ``open_x`` for each kind (how many brackets of it are open), and ``valid`` (1 until a
    bracket closes what is not open). A reader needs only one counter for each kind. With two kinds
    a stack is not enough.
    """

    rule = "closes every bracket; brackets of different kinds may cross"

    def __init__(self, name: str, pairs: int) -> None:
        self.name = name
        self.pairs = pairs
        self.vocabulary = Vocabulary(tuple(BRACKETS[: 2 * pairs]))
        self.chomsky: ChomskyType = "context-free" if pairs == 1 else "context-sensitive"
        self.kinds = [BRACKETS[2 * i : 2 * i + 2] for i in range(pairs)]
        self.variables: dict[str, VariableKind] = {f"open_{kind}": "count" for kind in self.kinds}
        self.variables |= {"valid": "category"}
        # [steps left][open brackets]: how many continuations balance (rescaled)
        self._ways = Recurrence(np.array([1.0]), self._longer)

    # -- the truth ------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        return f"{self.pairs} counters" if self.pairs > 1 else "a counter"

    @property
    def productions(self) -> tuple[str, ...]:
        """Balanced words in a row, in which brackets of different kinds change places."""
        symbols = self.vocabulary.symbols
        names = [f"X{i}" for i in range(len(symbols))]
        rules = ["S -> ", "S -> T"]  # the empty word alone is made by a rule that shortens
        for opens, closes in zip(names[::2], names[1::2], strict=True):
            sides = product(("", " T"), repeat=2)
            rules += [f"T -> {opens}{inside} {closes}{after}" for inside, after in sides]
        rules += [
            f"{x} {y} -> {y} {x}"
            for i, x in enumerate(names)
            for j, y in enumerate(names)
            if i // 2 != j // 2
        ]
        spelled = zip(names, symbols, strict=True)
        return (*rules, *(f"{x} -> {symbol!r}" for x, symbol in spelled))

    def _open_and_valid(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """Open brackets of each kind after each prefix, [batch, time + 1, kinds]; and validity."""
        symbol = np.where(words.mask, words.ids - FIRST_SYMBOL_ID, -2)
        kind, step = symbol // 2, np.where(symbol % 2 == 0, 1, -1)
        change = np.where(kind[..., None] == np.arange(self.pairs), step[..., None], 0)
        opened = np.pad(np.cumsum(change, axis=1), ((0, 0), (1, 0), (0, 0)))
        valid = np.logical_and.accumulate((opened >= 0).all(axis=2), axis=1)
        return opened, valid

    def allowed(self, words: Words) -> np.ndarray:
        opened, valid = self._open_and_valid(words)
        allowed = np.zeros((*valid.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., FIRST_SYMBOL_ID::2] = True
        allowed[..., FIRST_SYMBOL_ID + 1 :: 2] = opened > 0
        allowed[..., END_ID] = (opened == 0).all(axis=2)
        return allowed & valid[..., None]

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        opened, valid = self._open_and_valid(words)
        traced = {f"open_{kind}": opened[..., i] for i, kind in enumerate(self.kinds)}
        return traced | {"valid": valid.astype(np.int64)}

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        symbols = self.vocabulary.symbols
        if self.contains(word) and word:
            # Any one substitution changes the balance of a kind.
            where = 0 if rng is None else int(rng.integers(len(word)))
            choices = [s for s in symbols if s != word[where]]
            choice = choices[0] if rng is None else choices[rng.integers(len(choices))]
            return (*word[:where], choice, *word[where + 1 :])
        if not self.has(len(word), True):
            raise LookupError(f"{self.name} has no word of length {len(word)} to change it into")
        return self._nearest(word, rng)

    def _costs(self, word: Word) -> list[dict[Depths, int]]:
        """Fewest substitutions from each position on to balance, for each count of open."""
        costs: list[dict[Depths, int]] = [{(0,) * self.pairs: 0}]
        for behind, symbol in enumerate(reversed(word)):  # cost of the rest
            cost: dict[Depths, int] = {}
            for depths, rest in costs[-1].items():
                for index, choice in enumerate(self.vocabulary.symbols):
                    before = _before(depths, index)
                    if before is not None and sum(before) <= len(word) - behind - 1:
                        total = rest + (choice != symbol)
                        cost[before] = min(total, cost.get(before, total))
            costs.append(cost)
        return costs[::-1]

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        costs, symbols = self._costs(word), self.vocabulary.symbols

        def step(at: int, depths: Depths, change: bool) -> list[Depths]:
            indices = (i for i, choice in enumerate(symbols) if (choice != word[at]) == change)
            return [_after(depths, index) for index in indices]

        def cost(at: int, depths: Depths) -> float:
            return float(costs[at].get(depths, inf))

        return cheapest_sets(len(word), (0,) * self.pairs, step, cost)

    def _nearest(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The member with the fewest substitutions, by dynamic programming over the counts."""
        costs = self._costs(word)
        depths, changed = (0,) * self.pairs, []
        for symbol, (before, after) in zip(word, pairwise(costs), strict=True):
            best = []
            for index, choice in enumerate(self.vocabulary.symbols):
                target = _after(depths, index)
                if target in after and after[target] + (choice != symbol) == before[depths]:
                    best.append((choice, target))
            chosen, depths = best[0 if rng is None else int(rng.integers(len(best)))]
            changed.append(chosen)
        return tuple(changed)

    # -- data -----------------------------------------------------------------------------------

    def has(self, length: int, label: bool) -> bool:
        return length > 0 and (not label or length % 2 == 0)

    def _longer(self, ways: np.ndarray) -> np.ndarray:
        """The ways to balance with one more step, [open brackets]."""
        last = np.pad(ways, (1, 2))
        ways = last[:-2] + last[2:]  # from d: open to d + 1, or close to d - 1
        return np.asarray(ways / ways.max())

    def _balanced(self, rng: np.random.Generator, lengths: np.ndarray) -> np.ndarray:
        """Balanced words of one kind, drawn evenly: True opens, False closes, [batch, longest]."""
        longest = int(lengths.max(initial=0))
        table = np.zeros((longest + 1, longest + 3))
        for steps, ways in enumerate(self._ways.up_to(longest)):
            table[steps, : len(ways)] = ways[: longest + 3]
        opens = np.zeros((len(lengths), longest), dtype=bool)
        depth = np.zeros(len(lengths), dtype=np.int64)
        for t in range(longest):
            rest = np.maximum(lengths - t - 1, 0)
            up = table[rest, depth + 1]
            down = np.where(depth > 0, table[rest, np.maximum(depth - 1, 0)], 0.0)
            opens[:, t] = rng.random(len(lengths)) * (up + down) < up
            depth += np.where(t < lengths, np.where(opens[:, t], 1, -1), 0)
        return opens

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Members: each pair of brackets has a random kind, and kinds are interleaved at random."""
        count, longest = len(lengths), int(lengths.max(initial=0))
        share = np.ones(self.pairs) / self.pairs
        halves = rng.multinomial(lengths // 2, share)
        ends = np.cumsum(2 * halves, axis=1)
        kind = (np.arange(longest)[None, :, None] >= ends[:, None, :-1]).sum(axis=2)
        key = np.where(np.arange(longest) < lengths[:, None], rng.random((count, longest)), np.inf)
        kind = np.take_along_axis(kind, np.argsort(key, axis=1), axis=1)
        ids = np.zeros((count, longest), dtype=np.int64)
        for index in range(self.pairs):
            opens = self._balanced(rng, 2 * halves[:, index])
            rank = np.cumsum(kind == index, axis=1) - 1
            if opens.shape[1]:
                turn = np.take_along_axis(opens, np.clip(rank, 0, opens.shape[1] - 1), axis=1)
                ids = np.where(kind == index, 2 * index + ~turn, ids)
        return Words.of_rows(ids + FIRST_SYMBOL_ID, lengths)

    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Members, and three kinds of other words in equal shares.

        The three kinds are: a member with one substitution, the symbols of a member in a random
        order, and random symbols. Others of odd length are always random symbols. If such a word is
        in the language after all, its last symbol becomes an opening bracket.
        """
        return self._drawn(rng, lengths, labels, kinds=3)

    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """One substitution in a member: it always breaks the balance of a kind."""
        return self._drawn(rng, lengths, np.zeros(len(lengths), dtype=bool), kinds=1)

    def _drawn(
        self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray, kinds: int
    ) -> Words:
        """Members, and others of the first ``kinds`` kinds: substitution, disorder, random."""
        even = lengths - lengths % 2
        members = self._members(rng, even)
        size, count = len(self.vocabulary.symbols), len(lengths)
        width = int(lengths.max(initial=0))
        ids = np.full((count, width), END_ID, dtype=np.int64)
        ids[:, : members.ids.shape[1]] = members.ids
        random = rng.integers(size, size=ids.shape) + FIRST_SYMBOL_ID
        kind = np.where(labels, -1, rng.integers(kinds, size=count))
        kind = np.where(~labels & (lengths % 2 == 1), 2, kind)
        rows = np.flatnonzero(kind == 0)
        where = (rng.random(len(rows)) * lengths[rows]).astype(np.int64)
        shift = rng.integers(1, size, size=len(rows))
        ids[rows, where] = (ids[rows, where] - FIRST_SYMBOL_ID + shift) % size + FIRST_SYMBOL_ID
        key = np.where(np.arange(width) < lengths[:, None], rng.random(ids.shape), np.inf)
        shuffled = np.take_along_axis(ids, np.argsort(key, axis=1), axis=1)
        ids = np.where((kind == 1)[:, None], shuffled, ids)
        ids = np.where((kind == 2)[:, None], random, ids)
        words = Words.of_rows(ids, lengths)
        wrong = np.flatnonzero(~labels & self.labels(words))
        ids = words.ids.copy()
        ids[wrong, lengths[wrong] - 1] = (
            FIRST_SYMBOL_ID  # a bracket that opens at the end stays open
        )
        return Words.of_rows(ids, lengths)


def _after(depths: Depths, symbol: int) -> Depths:
    """The counts after a symbol (even: opens, odd: closes), perhaps negative."""
    kind, step = symbol // 2, 1 if symbol % 2 == 0 else -1
    return (*depths[:kind], depths[kind] + step, *depths[kind + 1 :])


def _before(depths: Depths, symbol: int) -> Depths | None:
    """The counts before a symbol that leads to ``depths``; None where there are none."""
    before = _after(depths, symbol ^ 1)
    closes_nothing = symbol % 2 == 1 and before[symbol // 2] < 1
    return None if min(before) < 0 or closes_nothing else before
