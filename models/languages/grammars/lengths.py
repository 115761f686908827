"""How likely a grammar makes words of each length, and words of a length, drawn by its weights."""

from __future__ import annotations

from functools import cached_property
from threading import Lock

import numpy as np
from jaxtyping import Float, Int

from models.languages.grammars.normal_form import NormalForm

_growing = Lock()


class ByLength:
    """The words of a grammar by their length."""

    def __init__(self, form: NormalForm) -> None:
        self.form = form
        self._known = np.zeros((1, form.size))
        self._possible = np.zeros((1, form.size), bool)

    @cached_property
    def _scale(self) -> float:
        """By how much longer words are rarer, symbol by symbol. Without it the weights of long
        words would be too small for a number."""
        found = self._grown(np.zeros((1, self.form.size)), 64, 1.0)[:, self.form.start]
        lengths = np.flatnonzero(found > 0)
        if len(lengths) < 2:
            return 1.0
        first, last = lengths[len(lengths) // 2 - 1], lengths[-1]
        return float((found[first] / found[last]) ** (1 / (last - first)))

    def _grown(self, known: np.ndarray, longest: int, scale: float) -> np.ndarray:
        """The weight with which each nonterminal makes a word of each length, [length, ...]."""
        form, rows = self.form, list(known)
        for length in range(len(known), longest + 1):
            if length == 1:
                rows.append(form.symbols.sum(axis=0) * scale)
                continue
            shorter = np.array(rows)
            both = shorter[1:, form.left] * shorter[:0:-1, form.right]
            rows.append(both.sum(axis=0) @ form.pairs)
        return np.array(rows)

    def weights(self, longest: int) -> Float[np.ndarray, "lengths nonterminals"]:
        """The weight of each length from 0 on, for each nonterminal; a length has its own unit."""
        scale = self._scale
        with _growing:
            if len(self._known) <= longest:
                self._known = self._grown(self._known, longest, scale)
            return self._known[: longest + 1]

    def has(self, length: int) -> bool:
        """Is there a word of this length, which is at least 1?"""
        return bool(self._may(length)[length, self.form.start])

    def _may(self, longest: int) -> np.ndarray:
        """As ``weights``, but only whether there is any: without rounding."""
        form = self.form
        with _growing:
            rows = list(self._possible)
            for length in range(len(rows), longest + 1):
                if length == 1:
                    rows.append(np.asarray((form.symbols > 0).any(axis=0)))
                    continue
                shorter = np.array(rows)
                both = (shorter[1:, form.left] & shorter[:0:-1, form.right]).any(axis=0)
                rows.append(np.asarray((form.pairs[both] > 0).any(axis=0)))
            self._possible = np.array(rows)
            return self._possible

    def draw(
        self, rng: np.random.Generator, lengths: Int[np.ndarray, " batch"]
    ) -> Int[np.ndarray, "batch time"]:
        """One word per row, of that length: the symbols by number, and -1 past the end.

        All stretches that are one step deeper in their trees are drawn at once.
        """
        form, longest = self.form, int(lengths.max(initial=0))
        weights = self.weights(longest)
        words = np.full((len(lengths), longest), -1, np.int64)
        spelled = np.cumsum(form.symbols, axis=0)  # [symbols, nonterminals]
        row = np.arange(len(lengths))
        begin = np.zeros(len(lengths), np.int64)
        size, part = lengths.astype(np.int64), np.full(len(lengths), form.start)
        while len(row):
            single = size == 1
            at = spelled[:, part[single]]
            pick = rng.random(at.shape[1]) * at[-1]
            words[row[single], begin[single]] = (at <= pick).sum(axis=0)
            row, begin, size, part = (each[~single] for each in (row, begin, size, part))
            if not len(row):
                break
            kinds, which = np.unique(np.stack([size, part]), axis=1, return_inverse=True)
            pair, cut = np.empty_like(row), np.empty_like(row)
            for kind, (length, whole) in enumerate(kinds.T):
                mine = np.flatnonzero(which.ravel() == kind)
                pair[mine], cut[mine] = self._split(
                    rng, weights, int(length), int(whole), len(mine)
                )
            row = np.concatenate([row, row])
            part = np.concatenate([form.left[pair], form.right[pair]])
            begin = np.concatenate([begin, begin + cut])
            size = np.concatenate([cut, size - cut])
        return words

    def _split(
        self,
        rng: np.random.Generator,
        weights: np.ndarray,
        length: int,
        whole: int,
        count: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws the pair that a nonterminal becomes, and how long the first of the two is."""
        pairs = np.flatnonzero(self.form.pairs[:, whole])
        left, right = self.form.left[pairs], self.form.right[pairs]
        ways = weights[1:length, left] * weights[length - 1 : 0 : -1, right]
        share = np.cumsum((ways * self.form.pairs[pairs, whole]).ravel())
        drawn = np.searchsorted(share, rng.random(count) * share[-1], side="right")
        cut, which = np.divmod(drawn, len(pairs))
        return pairs[which], cut + 1
