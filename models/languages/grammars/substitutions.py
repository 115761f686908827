"""The fewest substitutions that make a word one of a grammar."""

from __future__ import annotations

from functools import cache

import numpy as np
from jaxtyping import Float, Int

from models.languages.grammars.normal_form import NormalForm
from models.languages.repairs import MOST_REPAIRS

Sets = frozenset[tuple[int, ...]]


class Substitutions:
    """A word, and the fewest substitutions that make it come of a grammar.

    Args:
        symbols: the word, by number from 0.
    """

    def __init__(self, form: NormalForm, symbols: Int[np.ndarray, " time"]) -> None:
        self.form, self.symbols = form, symbols
        self._may = form.pairs > 0
        self._spelled = form.symbols > 0
        self._costs = self._filled()

    def _filled(self) -> Float[np.ndarray, "begin end_plus_1 nonterminals"]:
        """The fewest substitutions for each stretch to come of each nonterminal."""
        form, time = self.form, len(self.symbols)
        costs = np.full((time, time + 1, form.size), np.inf)
        any_symbol = self._spelled.any(axis=0)
        for at, symbol in enumerate(self.symbols):
            costs[at, at + 1] = np.where(
                self._spelled[symbol], 0.0, np.where(any_symbol, 1.0, np.inf)
            )
        for length in range(2, time + 1):
            for begin in range(time - length + 1):
                end = begin + length
                least = self._cuts(costs, begin, end).min(axis=0, initial=np.inf)
                choices = np.where(self._may, least[:, None], np.inf)
                costs[begin, end] = choices.min(axis=0, initial=np.inf)
        return costs

    def _cuts(self, costs: np.ndarray, begin: int, end: int) -> Float[np.ndarray, "cuts pairs"]:
        """The cost of each pair, by the place where its second part begins."""
        return np.asarray(
            costs[begin, begin + 1 : end, self.form.left].T
            + costs[begin + 1 : end, end, self.form.right]
        )

    def _ways(self, begin: int, end: int, part: int) -> list[tuple[int, int, int]]:
        """The cheapest ways to cut a stretch that comes of a nonterminal: cut, left, right."""
        cuts = np.where(self._may[:, part], self._cuts(self._costs, begin, end), np.inf)
        hits = np.argwhere(cuts == self._costs[begin, end, part])
        left, right = self.form.left, self.form.right
        return [(begin + 1 + int(cut), int(left[p]), int(right[p])) for cut, p in hits]

    def nearest(self, rng: np.random.Generator | None) -> list[int]:
        """The word with the fewest symbols changed; ``rng`` draws among several ways."""
        word = self.symbols.tolist()
        stack = [(0, len(word), self.form.start)]
        while stack:
            begin, end, part = stack.pop()
            if end - begin == 1:
                if self._costs[begin, end, part]:
                    choices = np.flatnonzero(self._spelled[:, part])
                    word[begin] = int(choices[0] if rng is None else rng.choice(choices))
                continue
            cuts = self._ways(begin, end, part)
            cut, left, right = cuts[0 if rng is None else int(rng.integers(len(cuts)))]
            stack += [(begin, cut, left), (cut, end, right)]
        return word

    def sets(self) -> tuple[tuple[int, ...], ...] | None:
        """All sets of positions at which the fewest substitutions make a word of the grammar.

        Returns:
            None if there are more than ``MOST_REPAIRS``.
        """

        @cache
        def chosen(begin: int, end: int, part: int) -> Sets:
            if not self._costs[begin, end, part]:
                return frozenset([()])
            if end - begin == 1:
                return frozenset([(begin,)])
            union: set[tuple[int, ...]] = set()
            for cut, left, right in self._ways(begin, end, part):
                first, second = chosen(begin, cut, left), chosen(cut, end, right)
                # Each set of a part leads to at least one of the whole.
                if max(len(first), len(second)) > MOST_REPAIRS:
                    raise _TooManyError
                union |= {head + tail for head in first for tail in second}
                if len(union) > MOST_REPAIRS:
                    raise _TooManyError
            return frozenset(union)

        try:
            return tuple(sorted(chosen(0, len(self.symbols), self.form.start)))
        except _TooManyError:
            return None


class _TooManyError(Exception):
    """There are more sets than anyone wants to read."""
