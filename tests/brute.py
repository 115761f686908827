"""The oracle for languages: no automaton, no counting, just the list of all words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import product

import numpy as np
from jaxtyping import Bool

from models.languages import END, Word


def words_up_to(symbols: Sequence[str], longest: int) -> Iterator[Word]:
    """All words over the symbols, the shorter first."""
    for length in range(longest + 1):
        yield from product(symbols, repeat=length)


def distance(x: Word, y: Word) -> int:
    """Substitutions between two words of one length."""
    return sum(a != b for a, b in zip(x, y, strict=True))


class Listed:
    """A language as the list of its words.

    The list must reach far enough: a prefix counts as alive if a listed word begins with it.
    """

    def __init__(self, symbols: Sequence[str], members: Iterable[Word]) -> None:
        self.symbols = tuple(symbols)
        self._listed = members
        self._fewest: dict[int, dict[Word, int | None]] = {}
        self._of_length: dict[int, np.ndarray] = {}

    @classmethod
    def by_rule(cls, symbols: Sequence[str], rule: Callable[[Word], bool], reach: int) -> Listed:
        return cls(symbols, filter(rule, words_up_to(symbols, reach)))

    @cached_property
    def members(self) -> frozenset[Word]:
        return frozenset(self._listed)  # read when it is asked for: tests are made of many lists

    @cached_property
    def prefixes(self) -> set[Word]:
        return {word[:end] for word in self.members for end in range(len(word) + 1)}

    def contains(self, word: Word) -> bool:
        return word in self.members

    def alive(self, prefix: Word) -> bool:
        return prefix in self.prefixes

    def next_symbols(self, prefix: Word) -> frozenset[str]:
        follow = {symbol for symbol in self.symbols if self.alive((*prefix, symbol))}
        return frozenset(follow | {END} if self.contains(prefix) else follow)

    def fewest_substitutions(self, word: Word) -> int | None:
        """To a word of the same length and the opposite membership; None where there is none."""
        if len(word) not in self._fewest:
            self._fewest[len(word)] = self._fewest_of(len(word))
        return self._fewest[len(word)][word]

    def _fewest_of(self, length: int) -> dict[Word, int | None]:
        """The same for every word of a length: each is compared with all others."""
        words = list(product(self.symbols, repeat=length))
        rows = np.array(list(product(range(len(self.symbols)), repeat=length)))
        members = np.array([self.contains(word) for word in words])
        found: dict[Word, int | None] = {}
        for word, row, member in zip(words, rows, members, strict=True):
            others = rows[members != member]
            found[word] = int((others != row).sum(axis=1).min()) if len(others) else None
        return found

    def unlike_members(self, word: Word) -> Bool[np.ndarray, "members time"]:
        """Marks the places at which each member of the word's length has another symbol."""
        length = len(word)
        if length not in self._of_length:
            members = [other for other in self.members if len(other) == length]
            self._of_length[length] = np.array(members, dtype=str).reshape(len(members), length)
        return self._of_length[length] != np.array(word, dtype=str)

    def residual(self, prefix: Word, reach: int) -> tuple[bool, ...]:
        """Which continuations up to ``reach`` make a word: the state of a minimal automaton."""
        return tuple(self.contains(prefix + rest) for rest in words_up_to(self.symbols, reach))
