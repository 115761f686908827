"""Transductions that put the letters of a source in another order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int

from models.languages.language import ChomskyType
from models.languages.pairs.transduction import Alignment, Transduction
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import BORDER, END_ID, FIRST_SYMBOL_ID, Word, Words

Order = Callable[[Int[np.ndarray, " letters"]], Int[np.ndarray, " letters"]]
"""Letters by number, and for each place of the target the place of the source it comes from."""


def same(letters: np.ndarray) -> np.ndarray:
    """w becomes w."""
    return np.arange(len(letters))


def backwards(letters: np.ndarray) -> np.ndarray:
    """w becomes w from its end."""
    return np.arange(len(letters))[::-1]


def alphabetical(letters: np.ndarray) -> np.ndarray:
    """The letters in the order of the alphabet; equal ones keep theirs."""
    return np.argsort(letters, kind="stable")


def mirrored(symbols: str) -> tuple[str, ...]:
    """The productions of all pairs of a source and the same backwards."""
    return tuple(
        f"{left} -> {s!r} {inner} {s!r}"
        for left, inner in (("S", "S"), ("S", repr(BORDER)))
        for s in symbols
    )


class Reordering(Transduction):
    """The letters of any source, in another order; a size is the length of the source."""

    def __init__(
        self,
        name: str,
        symbols: str,
        order: Order,
        chomsky: ChomskyType,
        rule: str,
        productions: tuple[str, ...] = (),
    ) -> None:
        any_word = f"[{symbols}]+"
        super().__init__(name, RegularLanguage.from_regex(name, any_word, symbols), (), rule)
        self.order, self.chomsky, self._productions = order, chomsky, productions

    @property
    def productions(self) -> tuple[str, ...]:
        return self._productions

    def _places(self, source: Word) -> np.ndarray:
        return self.order(np.array([self.vocabulary.ids[symbol] for symbol in source]))

    def target(self, source: Word) -> Word:
        return tuple(source[place] for place in self._places(source))

    def alignment(self, source: Word) -> Alignment:
        return tuple((int(place),) for place in self._places(source))

    # -- data -----------------------------------------------------------------------------------

    def length_of(self, n: int) -> int:
        return 2 * n + 1

    def size_of(self, length: int) -> int | None:
        return length // 2 if length % 2 and length > 1 else None

    def _longest_source(self, length: int) -> int:
        return length // 2

    def _has_member(self, length: int) -> bool:
        return self.size_of(length) is not None

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        size = len(self.source.vocabulary.symbols)
        ids = np.full((len(lengths), int(lengths.max(initial=0))), END_ID)
        for row, n in enumerate(lengths // 2):
            ids[row, :n] = rng.integers(size, size=n) + FIRST_SYMBOL_ID
            ids[row, n] = self.border
            ids[row, n + 1 : 2 * n + 1] = ids[row, :n][self.order(ids[row, :n])]
        return Words.of_rows(ids, lengths)

    def _continued(self, words: Words, shares: np.ndarray) -> np.ndarray:
        """Weights: even over the letters in the source, all on one symbol in the target."""
        size, time = len(self.source.vocabulary.symbols), words.ids.shape[1]
        weights = np.zeros((len(words), time + 1, len(self.vocabulary)))
        sizes = [(n, shares[2 * n + 1]) for n in range(1, len(shares) // 2) if shares[2 * n + 1]]
        for at in range(time + 1):
            begun = self._source_alone(words, at)
            for n, share in sizes:
                chance = share * size ** -float(at)
                if at < n:
                    letters = slice(FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + size)
                    weights[begun, at, letters] += chance / size
                elif at == n:
                    weights[begun, at, self.border] += chance
        lengths = {n for n, _ in sizes}
        for row, ids in enumerate(words.ids):
            word = self.vocabulary.decode(ids[: words.lengths[row]])
            source, came = self.split(word)
            if BORDER not in word or len(source) not in lengths:
                continue
            if not set(source) <= set(self.source.vocabulary.symbols):
                continue
            due = [*(self.vocabulary.ids[symbol] for symbol in self.target(source)), END_ID]
            for at, token in enumerate(due):
                weights[row, len(source) + 1 + at, token] = 1.0
                if at >= len(came) or self.vocabulary.ids[came[at]] != token:
                    break
        return weights

    def _source_alone(self, words: Words, at: int) -> np.ndarray:
        """True where the first ``at`` symbols are letters, and no border."""
        ids = words.ids[:, :at]
        letters = (ids >= FIRST_SYMBOL_ID) & (ids < self.border)
        return letters.all(axis=1) & (words.lengths >= at)
