"""The oracle for languages: no automaton, no counting, just the list of all words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product

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
        self.members = frozenset(members)
        self.prefixes = {word[:end] for word in self.members for end in range(len(word) + 1)}

    @classmethod
    def by_rule(cls, symbols: Sequence[str], rule: Callable[[Word], bool], reach: int) -> Listed:
        return cls(symbols, filter(rule, words_up_to(symbols, reach)))

    def contains(self, word: Word) -> bool:
        return word in self.members

    def alive(self, prefix: Word) -> bool:
        return prefix in self.prefixes

    def next_symbols(self, prefix: Word) -> frozenset[str]:
        follow = {symbol for symbol in self.symbols if self.alive((*prefix, symbol))}
        return frozenset(follow | {END} if self.contains(prefix) else follow)

    def fewest_substitutions(self, word: Word) -> int | None:
        """To a word of the same length and the opposite membership; None where there is none."""
        wanted = not self.contains(word)
        others = product(self.symbols, repeat=len(word))
        return min(
            (distance(word, other) for other in others if self.contains(other) == wanted),
            default=None,
        )

    def residual(self, prefix: Word, reach: int) -> tuple[bool, ...]:
        """Which continuations up to ``reach`` make a word: the state of a minimal automaton."""
        return tuple(self.contains(prefix + rest) for rest in words_up_to(self.symbols, reach))
