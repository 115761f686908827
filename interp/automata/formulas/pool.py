"""A pool of literals that grows: those that tell most about the labels of words are made longer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float

from interp.automata.evidence import size_bits
from interp.automata.formulas.columns import Columns
from interp.automata.formulas.literals import (
    Letters,
    Literal,
    block_literals,
    first_literals,
    nested,
    sums,
)

MOST_LETTERS = 12
"""Patterns name the symbols that tell the labels apart best by themselves, at most so many."""
FEW = 5
"""Alphabets of so many symbols are small: all tiers and patterns of three letters are tried."""
FRONT, LEVELS, LONGEST = 50, 5, 6
"""So many literals grow at a time, so often; the letters of the longest pattern."""
TIERS = 6
"""In a larger alphabet literals grow on the tiers that tell most, so many of them."""
CHOSEN = 500
"""So many literals at most are what formulas are made of."""


class Pool:
    """Literals with their verdicts on the words of a search; verdicts are kept as packed bits."""

    def __init__(
        self, words: Sequence[Letters], labels: Bool[np.ndarray, " words"], alphabet: int
    ) -> None:
        self.labels, self.alphabet = labels, alphabet
        self.columns = Columns(words)
        self.at: dict[Literal, int] = {}
        self.literals: list[Literal] = []
        self.families: list[str] = []
        self.bits: list[float] = []
        self.packed = np.zeros((0, -(-len(words) // 8)), dtype=np.uint8)
        self.letters: list[int] = list(range(alphabet))

    def begin(self) -> list[Letters | None]:
        """Tries the first literals; returns the tiers on which they grow."""
        self.letters = self._telling_letters()
        few = len(self.letters) <= FEW
        sizes = range(2, self.alphabet) if self.alphabet <= FEW else (2, 3)
        tiers: list[Letters] = [t for size in sizes for t in combinations(self.letters, size)]
        if self.alphabet > FEW:
            tiers += [tuple(x for x in range(self.alphabet) if x != s) for s in self.letters]
        self.add(first_literals(self.letters, None, 3 if few else 2))
        self.add(literal for tier in tiers for literal in self._on_tier(tier, few))
        self.add(block_literals(self.letters))
        self.add(sums(self.letters, len(self.letters) if few else 4))
        self.add([Literal("same ends", ()), *nested(self.letters)])
        if self.alphabet > FEW:
            tells = self.tells(range(len(self.literals)), np.ones(len(self.labels), dtype=bool))
            best: dict[Letters, float] = {}
            for literal, tell in zip(self.literals, tells, strict=True):
                if literal.tier in tiers and literal.kind != "runs":
                    best[literal.tier] = max(best.get(literal.tier, 0.0), float(tell))
            tiers = sorted(best, key=lambda tier: -best[tier])[:TIERS]
        return [None, *tiers]

    def _on_tier(self, tier: Letters, few: bool) -> Iterator[Literal]:
        return first_literals(self.letters, tier, 3 if few else 2)

    def _telling_letters(self) -> list[int]:
        """The letters of patterns, in the order of the alphabet."""
        if self.alphabet <= MOST_LETTERS:
            return list(range(self.alphabet))
        alone = self.add(first_literals(range(self.alphabet), None, 1))
        tells = self.tells(alone, np.ones(len(self.labels), dtype=bool))
        best = np.zeros(self.alphabet)
        for index, tell in zip(alone, tells, strict=True):
            letter = self.literals[index].pieces[0][0]
            best[letter] = max(best[letter], tell)
        return sorted(np.argsort(-best, kind="stable")[:MOST_LETTERS].tolist())

    def add(self, literals: Iterable[Literal]) -> list[int]:
        """The places of literals in the pool; those that are new are tried on the words."""
        batch = list(dict.fromkeys(literals))
        new = [literal for literal in batch if literal not in self.at]
        if new:
            self.at |= {literal: len(self.literals) + i for i, literal in enumerate(new)}
            self.literals += new
            self.families += [literal.family for literal in new]
            self.bits += [size_bits(x.size(self.alphabet), x.counts, self.alphabet) for x in new]
            packed = [np.packbits(self.columns(literal)) for literal in new]
            self.packed = np.concatenate([self.packed, packed])
        return [self.at[literal] for literal in batch]

    def tells(
        self, places: Sequence[int] | range, mask: Bool[np.ndarray, " words"]
    ) -> Float[np.ndarray, " places"]:
        """Mutual information of literals and the labels of some words, in bits over all words."""
        some, yes = np.packbits(mask), np.packbits(mask & self.labels)
        packed = self.packed[np.asarray(places, dtype=int)]
        having = np.bitwise_count(packed & some).sum(axis=1).astype(float)
        hits = np.bitwise_count(packed & yes).sum(axis=1).astype(float)
        total, positive = float(mask.sum()), float((mask & self.labels).sum())
        prior = _entropy(np.array([positive]), np.array([total - positive]))[0]
        left = _entropy(hits, having - hits)
        right = _entropy(positive - hits, total - having - (positive - hits))
        return np.asarray(prior - left - right)

    def grow(
        self, tiers: Sequence[Letters | None], mask: Bool[np.ndarray, " words"], front: int
    ) -> None:
        """Grows on each tier the literals that tell most of the words of a mask."""
        for tier in tiers:
            places = [i for i, literal in enumerate(self.literals) if literal.tier == tier]
            tried: set[int] = set()
            for _ in range(LEVELS):
                tells = self.tells(places, mask)
                best = self._distinct([places[i] for i in np.argsort(-tells, kind="stable")], front)
                if not (fresh := [i for i in best if i not in tried]):
                    break
                tried |= set(fresh)
                longer = (x for i in fresh for x in self.literals[i].longer(self.letters, LONGEST))
                seeing = (x for x in longer if tier is None or x.sees_tier)
                places = list(dict.fromkeys([*places, *self.add(seeing)]))

    def _distinct(self, places: Sequence[int], most: int) -> list[int]:
        """The first places whose literals differ on some word."""
        seen: dict[bytes, int] = {}
        for place in places:
            seen.setdefault(self.packed[place].tobytes(), place)
            if len(seen) >= most:
                break
        return list(seen.values())

    def telling(
        self, masks: Sequence[Bool[np.ndarray, " words"]], families: set[str] | None
    ) -> list[int]:
        """The literals that formulas are made of: those that tell most beyond their own length.

        Of literals with the same verdicts on all words the shortest is taken.
        """
        places = [i for i, x in enumerate(self.families) if families is None or x in families]
        if not places:
            return []
        bits = np.array([self.bits[i] for i in places])
        chosen: dict[bytes, int] = {}
        for mask in masks:
            order = np.lexsort((bits, bits / 2 - self.tells(places, mask)))
            room = len(chosen) + CHOSEN // len(masks)
            for place in (places[i] for i in order):
                column = self.packed[place]
                rival = chosen.get(key := column.tobytes())
                new = rival is None and len(chosen) < room and column.any()
                if new or (rival is not None and self.bits[place] < self.bits[rival]):
                    chosen[key] = place
        return list(chosen.values())

    def column(self, literal: Literal) -> bytes:
        """The verdicts of a literal of the pool."""
        return self.packed[self.at[literal]].tobytes()


def _entropy(
    one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """Bits to tell which of ``one`` and ``other`` words have a label, for all of these words."""
    total = np.maximum(one + other, 1.0)
    shares = np.stack([one, other]) / total
    return np.asarray(-(total * shares * np.log2(np.where(shares > 0, shares, 1.0))).sum(axis=0))
