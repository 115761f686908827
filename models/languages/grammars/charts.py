"""Reads many words at once by a grammar: which part comes of what, and what may follow.

The insides are those of Cocke, Younger and Kasami, for all stretches of one length in all words at
once. What follows a prefix is told from the left corners of what is still to come (Jelinek and
Lafferty 1991, Stolcke 1995).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.lib.stride_tricks import as_strided

from models.errors import UserError
from models.languages.grammars.normal_form import NormalForm

MOST_NUMBERS = 2**25
"""The most numbers of a chart; more words are read in parts."""
MOST_OF_A_WORD = 2**30
"""The most numbers that one word may need."""


@dataclass(frozen=True)
class Read:
    """A grammar's answers about the prefixes of words; entry 0 is the empty prefix.

    Attributes:
        ends: whether the prefix is a word.
        follow: which symbols may come next.
        owed: the fewest symbols with which the prefix becomes a word; infinite if it cannot.
    """

    ends: Bool[np.ndarray, "batch time_plus_1"]
    follow: Bool[np.ndarray, "batch time_plus_1 symbols"]
    owed: Float[np.ndarray, "batch time_plus_1"]


class Charts:
    """Charts of one grammar."""

    def __init__(self, form: NormalForm) -> None:
        self.form = form
        self._may = (form.pairs > 0).astype(np.float32)
        self._spelled = np.vstack([form.symbols > 0, np.zeros(form.size, bool)])
        self._shortest = form.shortest()
        self._owed = form.owed(self._shortest)
        self._corner = form.corner()
        order = np.argsort(form.right, kind="stable")
        self._by_right = order
        self._rights, self._begins = np.unique(form.right[order], return_index=True)

    # -- which words, and what may follow -------------------------------------------------------

    def read(self, symbols: Int[np.ndarray, "batch time"]) -> Read:
        """Reads words, whose symbols are numbered from 0; past the end of a word stands -1."""
        parts = [self._read(symbols[rows]) for rows in self.parts(symbols)]
        return Read(
            *(
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("ends", "follow", "owed")
            )
        )

    def ends(self, symbols: Int[np.ndarray, "batch time"]) -> Bool[np.ndarray, "batch time_plus_1"]:
        """Whether each prefix is a word; as in ``read``, without what may follow."""
        return np.concatenate([self._ends(symbols[rows])[0] for rows in self.parts(symbols)])

    def _ends(self, symbols: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether each prefix is a word, and the chart that says so."""
        spelled = self._spelled[symbols].astype(np.float32)
        inside, whole = self.inside(spelled, self._may, is_there=True)
        ends = np.zeros((len(symbols), symbols.shape[1] + 1), bool)
        ends[:, 0] = self.form.empty > 0
        ends[:, 1:] = whole > 0
        return ends, inside

    def _read(self, symbols: Int[np.ndarray, "batch time"]) -> Read:
        form, (count, time) = self.form, symbols.shape
        ends, inside = self._ends(symbols)
        # What is still to come after a nonterminal that begins here, if it may: [time + 1] of
        # [batch, nonterminals].
        begun = np.full((time + 1, count, form.size), np.inf, np.float32)
        begun[0, :, form.start] = 0.0
        behind = np.empty((time, count, len(form.left)), np.float32)
        owed = np.full((count, time + 1), np.inf, np.float32)
        follow = np.zeros((count, time + 1, len(form.symbols)), bool)
        for end in range(time + 1):
            if end:
                came = np.where(inside[:, :end, end - 1] > 0, behind[:end].swapaxes(0, 1), np.inf)
                self._least(came.min(axis=1, initial=np.inf), begun[end])
            owed[:, end] = (begun[end] + self._shortest).min(axis=1)
            inner = self._cornered(begun[end])
            follow[:, end] = np.isfinite(inner).astype(np.float32) @ self._spelled[:-1].T > 0
            if end < time:
                behind[end] = self._of_pairs(inner)
        owed[ends] = 0.0
        return Read(ends, follow, owed)

    def _cornered(self, begun: np.ndarray) -> np.ndarray:
        """The same for the nonterminals that these begin with, at any depth."""
        return np.asarray((begun[:, :, None] + self._owed_32).min(axis=1))

    @cached_property
    def _owed_32(self) -> np.ndarray:
        return self._owed.astype(np.float32)

    def _of_pairs(self, begun: np.ndarray) -> np.ndarray:
        """The fewest symbols that are still to come after each pair that begins here."""
        return np.asarray(
            np.stack(
                [begun[:, wholes].min(axis=1, initial=np.inf) for wholes in self._wholes], axis=1
            )
            if self._wholes
            else np.empty((len(begun), 0), np.float32)
        )

    @cached_property
    def _wholes(self) -> list[np.ndarray]:
        """The nonterminals that become each pair."""
        return [np.flatnonzero(row) for row in self.form.pairs]

    def _least(self, came: np.ndarray, begun: np.ndarray) -> None:
        """Writes into ``begun`` the least of the pairs with the same second nonterminal."""
        if len(self._rights):
            least = np.minimum.reduceat(came[:, self._by_right], self._begins, axis=1)
            begun[:, self._rights] = least

    # -- how likely -----------------------------------------------------------------------------

    def next(
        self, symbols: Int[np.ndarray, "batch time"]
    ) -> Float[np.ndarray, "batch time_plus_1 symbols_and_end"]:
        """The probability of each symbol after each prefix, and in the last column of the end.

        All are 0 after a prefix that no word begins with.
        """
        parts = [self._next(symbols[rows]) for rows in self.parts(symbols)]
        return np.concatenate(parts)

    def _next(self, symbols: np.ndarray) -> np.ndarray:
        form, (count, time) = self.form, symbols.shape
        spelled = np.vstack([form.symbols, np.zeros(form.size)])
        inside, whole = self.inside(spelled[symbols], form.pairs, is_there=False)
        begun = np.zeros((time + 1, count, form.size))
        begun[0, :, form.start] = 1 - form.empty
        behind = np.empty((time, count, len(form.left)))
        weights = np.zeros((count, time + 1, len(form.symbols) + 1))
        weights[:, 0, -1] = form.empty
        weights[:, 1:, -1] = whole * (1 - form.empty)
        into = np.zeros((len(form.right), form.size))
        into[np.arange(len(form.right)), form.right] = 1.0
        for end in range(time + 1):
            if end:
                came = (inside[:, :end, end - 1] * behind[:end].swapaxes(0, 1)).sum(axis=1)
                begun[end] = came @ into
            inner = begun[end] @ self._corner
            weights[:, end, :-1] = inner @ form.symbols.T
            if end < time:
                behind[end] = inner @ form.pairs.T
        total = weights.sum(axis=2, keepdims=True)
        return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)

    # -- the chart ------------------------------------------------------------------------------

    def parts(self, symbols: np.ndarray) -> Iterator[slice]:
        """Rows that are read at once."""
        numbers = max(1, symbols.shape[1]) ** 2 * max(1, len(self.form.left)) * 3
        if numbers > MOST_OF_A_WORD:
            raise UserError(
                f"a word of {symbols.shape[1]} symbols is too long for a grammar of "
                f"{len(self.form.left)} pairs: give a shorter word"
            )
        step = max(1, MOST_NUMBERS // numbers)
        for first in range(0, max(1, len(symbols)), step):
            yield slice(first, first + step)

    def inside(
        self, spelled: np.ndarray, pairs: np.ndarray, is_there: bool
    ) -> tuple[Float[np.ndarray, "batch begin end pairs"], Float[np.ndarray, "batch end"]]:
        """The weights with which each stretch comes of the first nonterminal of each pair.

        Args:
            spelled: the weight with which each nonterminal is the symbol at each position, [batch,
                time, nonterminals].
            pairs: as in the normal form.
            is_there: whether a weight is only 1 or 0: is there any, or none?

        Returns:
            The chart: [begin, end - 1] is the stretch from ``begin`` up to ``end``. And the
            weights with which each prefix comes of the start.
        """
        form, (count, time) = self.form, spelled.shape[:2]
        first = np.zeros((count, time, time, len(form.left)), spelled.dtype)
        second = np.zeros_like(first)  # [end - 1, begin]: what is multiplied lies together
        whole = np.zeros((count, time), spelled.dtype)
        for length in range(1, time + 1):
            begins = np.arange(time - length + 1)
            ends = begins + length - 1
            if length == 1:
                cell = spelled
            else:
                # Of all cuts: from begin up to the cut, and from the cut on.
                shape = (count, len(begins), length - 1, len(form.left))
                cell = np.einsum(
                    "bncp,bncp->bnp",
                    _along(first, shape),
                    _along(second[:, length - 1 :, 1:], shape),
                )
                cell = cell @ pairs
                if is_there:
                    cell = (cell > 0).astype(spelled.dtype)
            first[:, begins, ends] = cell[..., form.left]
            second[:, ends, begins] = cell[..., form.right]
            whole[:, length - 1] = cell[:, 0, form.start]
        return first, whole


def _along(chart: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A view of the chart, [batch, n, cut, pairs]: for each n the cells from [n, n] on."""
    batch, row, cell, pair = chart.strides
    return as_strided(chart, shape, (batch, row + cell, cell, pair), writeable=False)
