"""Whether words have literals: all words at once, a column for each literal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from interp.automata.formulas.literals import Letters, Literal

PREFIXES = 2000
"""So many beginnings of patterns are kept with their places, because longer ones share them."""


class Columns:
    """Whether words have literals, one column of verdicts for each literal."""

    def __init__(self, words: Sequence[Letters]) -> None:
        self.words = words
        self._tiers: dict[Letters | None, _Read] = {}

    def __call__(self, literal: Literal) -> np.ndarray:
        """True for the words that have the property."""
        if literal.tier not in self._tiers:
            self._tiers[literal.tier] = _Read(self.words, literal.tier)
        read = self._tiers[literal.tier]
        if literal.kind == "pattern":
            return read.pattern(literal)
        if literal.kind == "runs":
            return read.runs(literal)
        if literal.kind == "same ends":
            return np.array([len(word) > 0 and word[0] == word[-1] for word in self.words])
        if literal.kind == "nested":
            depth = read.depth(literal.pieces)
            return (depth >= 0) & (depth <= literal.number)
        count = read.count(literal.pieces)
        if literal.kind == "modulo":
            return count % literal.number == literal.rest
        return count == literal.number if literal.kind == "exactly" else count >= literal.number


class _Read:
    """Words as a tier reads them, padded with -1, with the places of all pieces asked so far."""

    def __init__(self, words: Sequence[Letters], tier: Letters | None) -> None:
        if tier is not None:
            words = [tuple(s for s in word if s in tier) for word in words]
        self.lengths = np.array([len(word) for word in words], dtype=np.int16)
        self.longest = int(self.lengths.max(initial=0))
        self.padded = np.full((len(words), self.longest + 1), -1, dtype=np.int16)
        for row, word in zip(self.padded, words, strict=True):
            row[: len(word)] = word
        self.rows = np.arange(len(words))
        self.behind = lru_cache(PREFIXES)(self._behind)
        self._where: dict[Letters, np.ndarray] = {}
        self._next: dict[Letters, np.ndarray] = {}
        self._counts: dict[tuple[Letters, ...], np.ndarray] = {}
        self._runs: dict[Letters, list[int]] = {}
        self._depths: dict[tuple[Letters, ...], np.ndarray] = {}

    def where(self, piece: Letters) -> np.ndarray:
        """True where the piece begins."""
        if piece not in self._where:
            here = self.padded == piece[-1]
            if len(piece) > 1:
                before = self.where(piece[:-1])
                here = np.pad(here[:, len(piece) - 1 :], ((0, 0), (0, len(piece) - 1))) & before
            self._where[piece] = here
        return self._where[piece]

    def next(self, piece: Letters) -> np.ndarray:
        """The next place where the piece begins; beyond the longest word if there is none."""
        if piece not in self._next:
            beyond = self.longest + 1
            places = np.where(self.where(piece), np.arange(beyond), beyond).astype(np.int16)
            places = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]
            self._next[piece] = np.pad(places, ((0, 0), (0, 1)), constant_values=beyond)
        return self._next[piece]

    def pattern(self, literal: Literal) -> np.ndarray:
        """Each piece is taken at the first place behind the one before it, which is enough."""
        if not literal.ends:
            return self.behind(literal.pieces, literal.starts) <= self.longest
        *before, piece = literal.pieces
        begin = self.lengths - np.int16(len(piece))
        free = self.behind(tuple(before), literal.starts)
        fits = begin == 0 if literal.starts and not before else begin >= free
        return fits & self.where(piece)[self.rows, np.maximum(begin, 0)]

    def _behind(self, pieces: tuple[Letters, ...], starts: bool) -> np.ndarray:
        """The place behind these pieces; beyond the longest word if a word has them not."""
        if not pieces:
            return np.zeros(len(self.rows), dtype=np.int16)
        *before, piece = pieces
        beyond = np.int16(self.longest + 1)
        if starts and not before:
            return np.where(self.where(piece)[:, 0], np.int16(len(piece)), beyond)
        begin = self.next(piece)[self.rows, self.behind(tuple(before), starts)]
        return np.minimum(begin + np.int16(len(piece)), beyond)

    def count(self, pieces: tuple[Letters, ...]) -> np.ndarray:
        """The number of times that the pieces occur in all."""
        if pieces not in self._counts:
            self._counts[pieces] = np.sum([self.where(p).sum(axis=1) for p in pieces], axis=0)
        return self._counts[pieces]

    def runs(self, literal: Literal) -> np.ndarray:
        """Are these the runs of equal letters?"""
        if not self._runs:
            new = np.ones_like(self.padded, dtype=bool)
            new[:, 1:] = self.padded[:, 1:] != self.padded[:, :-1]
            new &= self.padded >= 0
            for row, (word, keep) in enumerate(zip(self.padded, new, strict=True)):
                self._runs.setdefault(tuple(word[keep].tolist()), []).append(row)
        has = np.zeros(len(self.rows), dtype=bool)
        has[self._runs.get(tuple(s for piece in literal.pieces for s in piece), [])] = True
        return has

    def depth(self, brackets: tuple[Letters, ...]) -> np.ndarray:
        """The depth to which brackets are nested; -1 where they are not well nested."""
        if brackets not in self._depths:
            opens, closes = zip(*brackets, strict=True)
            moves = np.isin(self.padded, opens).astype(int) - np.isin(self.padded, closes)
            heights = moves.cumsum(axis=1)
            well = (heights.min(axis=1) >= 0) & (heights[:, -1] == 0)
            for row in np.flatnonzero(well) if len(brackets) > 1 else ():
                well[row] = _matched(
                    self.padded[row, : self.lengths[row]], dict(zip(opens, closes, strict=True))
                )
            self._depths[brackets] = np.where(well, heights.max(axis=1), -1)
        return self._depths[brackets]


def _matched(word: np.ndarray, closing: dict[int, int]) -> bool:
    """Is each bracket closed by one of its kind?"""
    opened: list[int] = []
    for letter in word.tolist():
        if letter in closing:
            opened.append(closing[letter])
        elif letter in closing.values() and opened.pop() != letter:
            return False
    return True
