"""Languages whose members can be drawn; all other words are made from members."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations, product

import numpy as np

from models.languages.language import FormalLanguage
from models.languages.vocabulary import FIRST_SYMBOL_ID, Word, Words

TRIES = 64
"""Attempts to leave the language by one substitution in a new member."""
MOST_TRIED = 2**16
"""The most words that are looked at to find the nearest one outside the language."""


class DrawnLanguage(FormalLanguage):
    """A language that can draw members, and say of any word whether it is one."""

    @abstractmethod
    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """One member per row, of exactly that length; the language has such words."""

    @abstractmethod
    def _has_member(self, length: int) -> bool:
        """Is there a member of this length, which is at least 1?"""

    @abstractmethod
    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The member of the same length with the fewest substitutions; there is a member."""

    def has(self, length: int, label: bool) -> bool:
        if length < 1:
            return False
        if label:
            return self._has_member(length)
        if length not in self._others:
            self._others[length] = self._has_other(length)
        return self._others[length]

    @cached_property
    def _others(self) -> dict[int, bool]:
        """Whether a length has words outside the language; only lengths that were asked for."""
        return {}

    def _has_other(self, length: int) -> bool:
        """Is a word of this length outside the language?

        If all short words, all near misses of some members and many random words are inside, the
        answer is no.
        """
        return bool((~self.labels(self._some(length))).any())

    def _some(self, length: int) -> Words:
        size = len(self.vocabulary.symbols)
        if size**length <= TRIES**2:
            ids = np.array(list(product(range(size), repeat=length))) + FIRST_SYMBOL_ID
            return Words(ids, np.full(len(ids), length))
        rng, lengths = np.random.default_rng(0), np.full(TRIES, length)
        words = self._random(rng, lengths)
        if not self._has_member(length):
            return words
        return Words.concatenate(words, self._changed(rng, self._members(rng, lengths)))

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        if not self.contains(word):
            if not self.has(len(word), True):
                raise LookupError(f"{self.name} has no word of length {len(word)}")
            return self._nearest_member(word, rng)
        for nearby in self._near(word):
            outside = np.flatnonzero(~self.labels(nearby))
            if len(outside):
                row = outside[0] if rng is None else rng.choice(outside)
                return self.vocabulary.decode(nearby.ids[row])
        raise LookupError(f"no word outside {self.name} is near {' '.join(word)!r}")

    def _near(self, word: Word) -> Iterator[Words]:
        """All words that differ in one symbol, then in two, and so on, while they are not many."""
        ids = self.vocabulary.words([word]).ids[0]
        rest = len(self.vocabulary.symbols) - 1
        for changes in range(1, len(word) + 1):
            places = list(combinations(range(len(word)), changes))
            if len(places) * rest**changes > MOST_TRIED:
                return
            shifts = np.array(list(product(range(1, rest + 1), repeat=changes)))
            if not len(shifts):
                return
            rows = np.repeat(ids[None], len(places) * len(shifts), axis=0)
            at = np.repeat(np.array(places), len(shifts), axis=0)
            by = np.tile(shifts, (len(places), 1))
            index = np.arange(len(rows))[:, None]
            rows[index, at] = self._shifted(rows[index, at], by)
            yield Words(rows, np.full(len(rows), len(word)))

    def _shifted(self, ids: np.ndarray, by: np.ndarray) -> np.ndarray:
        """Other symbols in the place of these."""
        size = len(self.vocabulary.symbols)
        return np.asarray((ids - FIRST_SYMBOL_ID + by) % size + FIRST_SYMBOL_ID)

    # -- data -----------------------------------------------------------------------------------

    def _random(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Random symbols."""
        shape = (len(lengths), int(lengths.max(initial=0)))
        ids = rng.integers(len(self.vocabulary.symbols), size=shape) + FIRST_SYMBOL_ID
        return Words.of_rows(ids, lengths)

    def _changed(self, rng: np.random.Generator, words: Words) -> Words:
        """The words with one substitution in each."""
        rows, rest = np.arange(len(words)), len(self.vocabulary.symbols) - 1
        if not len(rows) or not rest:
            return words
        at = (rng.random(len(rows)) * words.lengths).astype(np.int64)
        ids = words.ids.copy()
        ids[rows, at] = self._shifted(ids[rows, at], rng.integers(1, rest + 1, size=len(rows)))
        return Words(ids, words.lengths)

    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """A member with one substitution, drawn again until the word is outside the language."""
        ids = self._members(rng, lengths).ids
        rows = np.arange(len(lengths))
        for _ in range(TRIES):
            missed = self._changed(rng, self._members(rng, lengths[rows]))
            out = ~self.labels(missed)
            ids[rows[out], : missed.ids.shape[1]] = missed.ids[out]
            rows = rows[~out]
            if not len(rows):
                return Words(ids, lengths.astype(np.int64))
        for row in rows:
            ids[row, : lengths[row]] = self._crossed(rng, int(lengths[row]))
        return Words(ids, lengths.astype(np.int64))

    def spoiled(self, rng: np.random.Generator, words: Words) -> Words:
        """Members with one substitution in each that leads outside the language.

        Where none of many attempts does, a member gets its nearest word outside.
        """
        ids, rows = words.ids.copy(), np.arange(len(words))
        for _ in range(TRIES):
            missed = self._changed(rng, words[rows])
            out = ~self.labels(missed)
            ids[rows[out]] = missed.ids[out]
            rows = rows[~out]
            if not len(rows):
                break
        for row in rows:
            word = self.vocabulary.decode(words.ids[row, : words.lengths[row]])
            ids[row, : len(word)] = self.vocabulary.words([self.counterfactual(word, rng)]).ids[0]
        return Words(ids, words.lengths)

    def _crossed(self, rng: np.random.Generator, length: int) -> np.ndarray:
        """The first word outside the language on a way from a member to a word outside."""
        some = self._some(length)
        goal = some.ids[np.flatnonzero(~self.labels(some))[0]]
        at = self._members(rng, np.array([length])).ids[0]
        differ = rng.permutation(np.flatnonzero(goal != at))
        path = np.repeat(at[None], len(differ), axis=0)
        for step, position in enumerate(differ):
            path[step:, position] = goal[position]
        outside = ~self.labels(Words(path, np.full(len(path), length)))
        return np.asarray(path[np.flatnonzero(outside)[0]])

    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Members; and others, half of them near misses, half random symbols.

        Where random symbols make members again and again, or a length has no members, all others
        are of the one kind that there is.
        """
        ids = self._random(rng, lengths).ids
        near = rng.random(len(lengths)) < 0.5
        possible = {int(n): self.has(int(n), True) for n in np.unique(lengths)}
        missing = ~labels & near & np.array([possible[int(n)] for n in lengths], dtype=bool)
        random = ~labels & ~missing
        for _ in range(TRIES):
            rows = np.flatnonzero(random)
            if not len(rows):  # a long chart takes its time even without words
                break
            hits = rows[self.labels(Words.of_rows(ids[rows], lengths[rows]))]
            random[:] = False
            random[hits] = True
            if not len(hits):
                break
            drawn = self._random(rng, lengths[hits]).ids
            ids[hits, : drawn.shape[1]] = drawn
        missing |= random
        for rows, source in (
            (np.flatnonzero(labels), self._members),
            (np.flatnonzero(missing), self.near_misses),
        ):
            if len(rows):
                drawn = source(rng, lengths[rows]).ids
                ids[rows, : drawn.shape[1]] = drawn
        return Words.of_rows(ids, lengths)
