"""Counting languages: words of k blocks of equal size, such as a^n b^n."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from models.languages.language import ChomskyType, FormalLanguage, VariableKind
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words


class CountingLanguage(FormalLanguage):
    """All words s1^n s2^n ... sk^n with n >= 1: a^n, a^n b^n, a^n b^n c^n, ...

    Variables: ``count_x`` (how often symbol x occurred so far), ``x-y`` (the difference of the
    counts of neighbouring blocks), ``remaining`` (with two blocks or more, how many symbols the
    shortest way to a member still needs), ``block`` (of the last symbol), and ``valid`` (1 until a
    symbol breaks the word).
    """

    def __init__(self, name: str, symbols: str) -> None:
        self.name = name
        self.vocabulary = Vocabulary(tuple(symbols))
        self.blocks = len(symbols)
        kinds: tuple[ChomskyType, ...] = ("regular", "context-free", "mildly context-sensitive")
        self.chomsky = kinds[min(self.blocks, 3) - 1]
        self.variables: dict[str, VariableKind] = {f"count_{s}": "count" for s in symbols}
        self.variables |= {f"{x}-{y}": "count" for x, y in pairwise(symbols)}
        if self.blocks > 1:
            self.variables["remaining"] = "count"
        self.variables |= {"block": "category", "valid": "category"}

        blocks = ", then all ".join(symbols)
        self.rule = f"has first all {blocks}, as many of each"

    # -- the truth ------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        kinds = ("a finite automaton", "a stack of one symbol, that is, a counter")
        return kinds[self.blocks - 1] if self.blocks < 3 else f"{self.blocks - 1} counters"

    @property
    def productions(self) -> tuple[str, ...]:
        """Nonterminals of later blocks wait, are sorted, and are spelled, from three blocks on."""
        first, *rest = (repr(symbol) for symbol in self.vocabulary.symbols)
        if len(rest) < 2:
            last = "".join(f" {symbol}" for symbol in rest)
            return (f"S -> {first} S{last}", f"S -> {first}{last}")
        waiting = [f"X{i}" for i in range(2, self.blocks + 1)]
        tail = " ".join(waiting)
        rules = [f"S -> {first} S {tail}", f"S -> {first} {tail}"]
        rules += [f"{y} {x} -> {x} {y}" for i, x in enumerate(waiting) for y in waiting[i + 1 :]]
        before = first
        for symbol, x in zip(rest, waiting, strict=True):
            rules += [f"{before} {x} -> {before} {symbol}", f"{symbol} {x} -> {symbol} {symbol}"]
            before = symbol
        return tuple(rules)

    def _counts(self, words: Words) -> np.ndarray:
        """Occurrences of each symbol in each prefix, [batch, time + 1, blocks]."""
        symbol = words.ids[..., None] - FIRST_SYMBOL_ID == np.arange(self.blocks)
        counts = np.cumsum(symbol, axis=1, dtype=np.int64)
        return np.pad(counts, ((0, 0), (1, 0), (0, 0)))

    def _block(self, words: Words) -> np.ndarray:
        """The block of the last symbol of each prefix, 0 for the empty one."""
        block = np.where(words.mask, words.ids - FIRST_SYMBOL_ID, 0)
        return np.pad(block, ((0, 0), (1, 0)))

    def _allowed_and_valid(
        self, words: Words, counts: np.ndarray, block: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n = counts[..., 0]
        # The current block has n symbols too: the next block may begin, or the word may end.
        full = np.take_along_axis(counts, block[..., None], axis=2)[..., 0] == n
        full &= n >= 1
        allowed = np.zeros((*block.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., FIRST_SYMBOL_ID] = block == 0
        for j in range(1, self.blocks):
            going = (block == j) & (counts[..., j] < n)
            allowed[..., FIRST_SYMBOL_ID + j] = going | ((block == j - 1) & full)
        allowed[..., END_ID] = (block == self.blocks - 1) & full
        # Counts alone decide as long as every earlier symbol was allowed.
        followed = np.take_along_axis(allowed[:, :-1], words.ids[..., None], axis=2)[..., 0]
        followed |= ~words.mask
        valid = np.pad(
            np.logical_and.accumulate(followed, axis=1), ((0, 0), (1, 0)), constant_values=True
        )
        return allowed & valid[..., None], valid

    def allowed(self, words: Words) -> np.ndarray:
        return self._allowed_and_valid(words, self._counts(words), self._block(words))[0]

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        counts, block = self._counts(words), self._block(words)
        symbols = self.vocabulary.symbols
        traced = {f"count_{s}": counts[..., i] for i, s in enumerate(symbols)}
        for i, (x, y) in enumerate(pairwise(symbols)):
            traced[f"{x}-{y}"] = counts[..., i] - counts[..., i + 1]
        if self.blocks > 1:  # symbols of the shortest way to a member
            n = np.maximum(counts[..., 0], 1)
            traced["remaining"] = self.blocks * n - counts.sum(axis=-1)
        _, valid = self._allowed_and_valid(words, counts, block)
        return traced | {"block": block, "valid": valid.astype(np.int64)}

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        symbols, length = self.vocabulary.symbols, len(word)
        if not self.contains(word):
            if not self.has(length, True):
                raise LookupError(f"{self.name} has no word of length {length}")
            return tuple(s for s in symbols for _ in range(length // self.blocks))
        if self.blocks == 1:
            raise LookupError(f"every word over {symbols[0]!r} is in {self.name}")
        # Move one border by one symbol: the word still has its blocks, but two counts are wrong.
        borders = [(self.size_of(length) or 0) * j for j in range(1, self.blocks)]
        border = borders[0] if rng is None else int(rng.choice(borders))
        grow_left = rng is not None and rng.random() < 0.5
        changed = list(word)
        if grow_left:
            changed[border] = word[border - 1]
        else:
            changed[border - 1] = word[border]
        return tuple(changed)

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...]:
        """One set: a length has one member. Every symbol unlike it must be changed."""
        member = self._counterfactual(word, None)
        pairs = enumerate(zip(word, member, strict=True))
        return (tuple(i for i, (old, new) in pairs if old != new),)

    # -- data -----------------------------------------------------------------------------------

    def length_of(self, n: int) -> int:
        return self.blocks * n

    def size_of(self, length: int) -> int | None:
        return length // self.blocks if length % self.blocks == 0 and length else None

    def has(self, length: int, label: bool) -> bool:
        return self.size_of(length) is not None if label else length > 0 and self.blocks > 1

    def _spelled(self, counts: np.ndarray) -> Words:
        """Rows of block sizes, [batch, blocks], as words."""
        lengths = counts.sum(axis=1)
        time = np.arange(int(lengths.max(initial=0)))
        ends = np.cumsum(counts, axis=1)
        block = (time[None, :, None] >= ends[:, None, :-1]).sum(axis=2)
        return Words.of_rows(block + FIRST_SYMBOL_ID, lengths)

    def members_of(self, length: int) -> np.ndarray:
        """A length has one member, or none."""
        count = int(self.has(length, True))
        return self._spelled(np.full((count, self.blocks), length // self.blocks)).ids

    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """Members, and three kinds of other words in equal shares.

        The three kinds are: a wrong count (one symbol moved between blocks; in a length that the
        blocks do not divide, the remainder spread at random), one substitution anywhere in a word
        of equal or nearly equal blocks, and symbols drawn at random.
        """
        return self._drawn(rng, lengths, labels, kinds=3)

    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """One symbol moved between the blocks of a member, or one substitution in it."""
        return self._drawn(rng, lengths, np.zeros(len(lengths), dtype=bool), kinds=2)

    def _drawn(
        self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray, kinds: int
    ) -> Words:
        """Members, and others of the first ``kinds`` kinds: wrong count, substitution, random."""
        count = len(lengths)
        sizes = np.repeat(lengths[:, None] // self.blocks, self.blocks, axis=1)
        for _ in range(self.blocks - 1):  # the remainder, spread at random
            short = sizes.sum(axis=1) < lengths
            sizes[np.arange(count), rng.integers(self.blocks, size=count)] += short
        kind = np.where(labels, -1, rng.integers(kinds, size=count))
        divisible = lengths % self.blocks == 0
        move = (kind == 0) & divisible
        source = rng.integers(self.blocks, size=count)
        if self.blocks > 1:
            target = (source + rng.integers(1, self.blocks, size=count)) % self.blocks
            rows = np.flatnonzero(move)
            sizes[rows, source[rows]] -= 1
            sizes[rows, target[rows]] += 1
        words = self._spelled(sizes)
        ids = words.ids.copy()
        rows = np.flatnonzero(kind == 1)
        where = (rng.random(len(rows)) * lengths[rows]).astype(np.int64)
        shift = rng.integers(1, max(self.blocks, 2), size=len(rows))
        ids[rows, where] = (
            ids[rows, where] - FIRST_SYMBOL_ID + shift
        ) % self.blocks + FIRST_SYMBOL_ID
        random = rng.integers(self.blocks, size=ids.shape) + FIRST_SYMBOL_ID
        words = Words.of_rows(np.where((kind == 2)[:, None], random, ids), lengths)
        # If a changed or random word is in the language after all, its first border is moved.
        wrong = ~labels & self.labels(words)
        if wrong.any():
            ids = words.ids.copy()
            ids[np.flatnonzero(wrong), lengths[wrong] // self.blocks] = FIRST_SYMBOL_ID
            words = Words.of_rows(ids, lengths)
        return words
