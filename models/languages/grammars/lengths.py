"""Weights of a grammar's words by their length, and words of a length, drawn by these weights."""

from __future__ import annotations

from functools import cached_property
from threading import Lock

import numpy as np
from jaxtyping import Float, Int

from models.languages.grammars.charts import Charts
from models.languages.grammars.normal_form import NormalForm

AT_ONCE = 2**24
"""The most numbers of a table of ``Remainders``; more words are read in parts."""

_growing = Lock()


class ByLength:
    """The words of a grammar by their length."""

    def __init__(self, form: NormalForm) -> None:
        self.form = form
        self._known = np.zeros((1, form.size))
        self._possible = np.zeros((1, form.size), bool)

    @cached_property
    def scale(self) -> float:
        """The factor by which words are rarer with each further symbol. Without it the weights of
        long words would be too small for a number."""
        weights = self._grown(np.zeros((1, self.form.size)), 64, 1.0)[:, self.form.start]
        lengths = np.flatnonzero(weights > 0)
        if len(lengths) < 2:
            return 1.0
        first, last = lengths[len(lengths) // 2 - 1], lengths[-1]
        return float((weights[first] / weights[last]) ** (1 / (last - first)))

    def _grown(self, start: np.ndarray, longest: int, scale: float) -> np.ndarray:
        """The weight with which each nonterminal makes a word of each length, [length, ...]."""
        form, rows = self.form, list(start)
        for length in range(len(start), longest + 1):
            if length == 1:
                rows.append(form.symbols.sum(axis=0) * scale)
                continue
            shorter = np.array(rows)
            pairs = shorter[1:, form.left] * shorter[:0:-1, form.right]
            rows.append(pairs.sum(axis=0) @ form.pairs)
        return np.array(rows)

    def weights(self, longest: int) -> Float[np.ndarray, "lengths nonterminals"]:
        """The weight of each length from 0 on, for each nonterminal; a length has its own unit."""
        scale = self.scale
        with _growing:
            if len(self._known) <= longest:
                self._known = self._grown(self._known, longest, scale)
            return self._known[: longest + 1]

    def has(self, length: int) -> bool:
        """Is there a word of this length, which is at least 1?"""
        return bool(self._may(length)[length, self.form.start])

    def _may(self, longest: int) -> np.ndarray:
        """Whether each of the ``weights`` is above 0, without rounding."""
        form = self.form
        with _growing:
            rows = list(self._possible)
            for length in range(len(rows), longest + 1):
                if length == 1:
                    rows.append(np.asarray((form.symbols > 0).any(axis=0)))
                    continue
                shorter = np.array(rows)
                pairs = (shorter[1:, form.left] & shorter[:0:-1, form.right]).any(axis=0)
                rows.append(np.asarray((form.pairs[pairs] > 0).any(axis=0)))
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
            row, begin, size, part = (values[~single] for values in (row, begin, size, part))
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
        self, rng: np.random.Generator, weights: np.ndarray, length: int, whole: int, count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws the pair that a nonterminal becomes, and how long the first of the two is."""
        pairs = np.flatnonzero(self.form.pairs[:, whole])
        left, right = self.form.left[pairs], self.form.right[pairs]
        products = weights[1:length, left] * weights[length - 1 : 0 : -1, right]
        share = np.cumsum((products * self.form.pairs[pairs, whole]).ravel())
        drawn = np.searchsorted(share, rng.random(count) * share[-1], side="right")
        cut, which = np.divmod(drawn, len(pairs))
        return pairs[which], cut + 1


class Remainders:
    """Weights of the next symbols in words whose length is drawn before the word is.

    They are those of ``Charts.next``, but each weight is known apart for every number of symbols
    that are still to come. So the words of each length count as often as their length is drawn.

    Args:
        shares: the probability of each length, from 0 on; a length with no word is never drawn.
    """

    def __init__(self, charts: Charts, by_length: ByLength, shares: np.ndarray) -> None:
        self.form, self.charts = charts.form, charts
        self.longest = len(shares) - 1
        weights = by_length.weights(self.longest)
        of_length = weights[:, self.form.start]
        self._each = np.divide(shares, of_length, out=np.zeros_like(of_length), where=of_length > 0)
        self._unit = by_length.scale
        self._corner = self._corners(weights)

    def _corners(self, weights: np.ndarray) -> Float[np.ndarray, "remaining whole beginning"]:
        """Weights of a nonterminal's beginning with another one, so many symbols before its end."""
        form = self.form
        steps = np.zeros((self.longest + 1, form.size, form.size))
        for length in range(1, self.longest + 1):
            weight = form.pairs * weights[length, form.right][:, None]  # [pairs, whole]
            np.add.at(steps[length].T, form.left, weight)
        corners = np.zeros_like(steps)
        corners[0] = np.eye(form.size)
        for rest in range(1, self.longest + 1):
            # One step down, then the rest of the way: of each first step's length.
            corners[rest] = np.einsum(
                "nwm,nmb->wb", steps[1 : rest + 1], corners[rest - 1 :: -1][:rest]
            )
        return corners

    def next(
        self, symbols: Int[np.ndarray, "batch time"]
    ) -> Float[np.ndarray, "batch time_plus_1 symbols_and_end"]:
        """The weight of each symbol after each prefix, and in the last column of the end.

        Each position has a unit of its own.
        """
        numbers = (symbols.shape[1] + 1) * (self.longest + 1) * max(self.form.size, 1)
        step = max(1, AT_ONCE // numbers)
        parts = [
            self._next(symbols[rows][first : first + step])
            for rows in self.charts.parts(symbols)
            for first in range(0, max(1, len(symbols[rows])), step)
        ]
        return np.concatenate(parts)

    def _next(self, symbols: np.ndarray) -> np.ndarray:
        form, (count, time), most = self.form, symbols.shape, self.longest + 1
        spelled = np.vstack([form.symbols, np.zeros(form.size)])
        inside, whole = self.charts.inside(spelled[symbols], form.pairs, is_there=False)
        begun = np.zeros((min(time, most) + 1, count, most, form.size))
        begun[0, :, 0, form.start] = 1.0
        behind = np.empty((time, count, most, len(form.left)))
        weights = np.zeros((count, time + 1, len(form.symbols) + 1))
        into = np.zeros((len(form.right), form.size))
        into[np.arange(len(form.right)), form.right] = 1.0
        for end in range(min(time, self.longest) + 1):
            if end:
                came = np.einsum("bnp,nbrp->brp", inside[:, :end, end - 1], behind[:end])
                begun[end] = came @ into
                weights[:, end, -1] = whole[:, end - 1] * self._each[end]
            room = self.longest - end  # symbols that may still come
            inner = np.zeros((count, most, form.size))
            for rest in range(room):
                inner[:, rest:room] += begun[end][:, : room - rest] @ self._corner[rest]
            # A symbol here, and so many after it.
            total = self._each[end + 1 : end + 1 + room]
            sums = np.einsum("brn,r->bn", inner[:, :room], total)
            weights[:, end, :-1] = sums @ form.symbols.T * self._unit
            if end < time:
                behind[end] = inner @ form.pairs.T
        return weights
