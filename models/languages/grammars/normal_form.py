"""A grammar in a form that can be computed with: pairs and single symbols, no empty words.

Every right side is one symbol or two nonterminals (Chomsky's normal form). Empty words and chains
of single nonterminals are summed up in the weights, exactly (Stolcke 1995). All weights are those
of words that end: a grammar that goes on for ever with some probability is told anew without it
(Nederhof and Satta 2003). The probabilities of all words then sum to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from models.languages.grammars.productions import Grammar, Nonterminal

Vector = Float[np.ndarray, " nonterminals"]


@dataclass(frozen=True)
class NormalForm:
    """The grammar of the words that are not empty.

    A pair is a right side of two nonterminals; several nonterminals may become the same pair.

    Attributes:
        start: the number of the nonterminal that a word comes of.
        left: the first nonterminal of each pair.
        right: the second nonterminal of each pair.
        pairs: the probability with which a nonterminal becomes a pair.
        symbols: the probability with which a nonterminal becomes a single symbol.
        empty: the probability of the empty word.
    """

    start: int
    left: Int[np.ndarray, " pairs"]
    right: Int[np.ndarray, " pairs"]
    pairs: Float[np.ndarray, "pairs nonterminals"]
    symbols: Float[np.ndarray, "symbols nonterminals"]
    empty: float

    @property
    def size(self) -> int:
        """The number of nonterminals."""
        return self.pairs.shape[1]

    def corner(self) -> Float[np.ndarray, "nonterminals nonterminals"]:
        """Weights of a nonterminal's beginning with another one, at any depth, [whole, beginning].

        Itself counts too. Beginnings at several depths are added up, so a value may be above 1.
        """
        begins = np.zeros((self.size, self.size))
        np.add.at(begins.T, self.left, self.pairs)
        return np.asarray(np.linalg.inv(np.eye(self.size) - begins) * _reached(begins > 0))

    def shortest(self) -> Vector:
        """The fewest symbols that come of each nonterminal."""
        fewest = np.where((self.symbols > 0).any(axis=0), 1.0, np.inf)
        while True:
            sums = np.where(
                self.pairs > 0, (fewest[self.left] + fewest[self.right])[:, None], np.inf
            )
            shorter = np.minimum(fewest, sums.min(axis=0, initial=np.inf))
            if (shorter == fewest).all():
                return fewest
            fewest = shorter

    def owed(self, shortest: Vector) -> Float[np.ndarray, "nonterminals nonterminals"]:
        """The fewest symbols after a beginning of a nonterminal, [whole, beginning]."""
        owed = np.where(np.eye(self.size, dtype=bool), 0.0, np.inf)
        for pair, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            wholes = self.pairs[pair] > 0
            owed[wholes, left] = np.minimum(owed[wholes, left], shortest[right])
        for middle in range(self.size):
            owed = np.minimum(owed, owed[:, middle, None] + owed[middle])
        return owed


def normal_form(grammar: Grammar) -> NormalForm:
    """The normal form of a grammar; its symbols keep their order."""
    rules = _Rules(grammar)
    total = _least(rules.size, lambda x: rules.made(x, rules.ending), rules.slope)
    total = np.where(np.abs(total - 1) < 1e-9, 1.0, total)
    empty = _least(rules.size, lambda x: rules.made(x, rules.empty), rules.slope)
    empty = np.where(rules.may_be_empty, empty, 0.0)
    some = np.maximum(total - empty, 0.0)  # the probability of an end that is not empty
    per = np.divide(1.0, some, out=np.zeros_like(some), where=some > 0)
    whole, left, right, weight = rules.whole, rules.left, rules.right, rules.weight
    chain = rules.chains.copy()
    np.add.at(chain, (whole, left), weight * empty[right])
    np.add.at(chain, (whole, right), weight * empty[left])
    chain *= per[:, None] * some
    chained = np.linalg.inv(np.eye(rules.size) - chain) * _reached(chain > 0)
    kinds, which = np.unique(np.stack([left, right]), axis=1, return_inverse=True)
    pairs = np.zeros((kinds.shape[1], rules.size))
    np.add.at(pairs, (which.ravel(), whole), weight * some[left] * some[right] * per[whole])
    live = pairs.any(axis=1)
    return NormalForm(
        0,
        kinds[0, live],
        kinds[1, live],
        pairs[live] @ chained.T,
        (rules.symbols * per) @ chained.T,
        float(empty[0] / total[0]) if total[0] else 0.0,  # too long a word has no probability
    )


class _Rules:
    """The productions as arrays; those of more than two parts are cut into pairs."""

    def __init__(self, grammar: Grammar) -> None:
        self._numbers: dict[object, int] = {grammar.start: 0}
        symbols = {symbol: i for i, symbol in enumerate(grammar.symbols)}
        pairs: list[tuple[int, int, int, float]] = []
        chains: list[tuple[int, int, float]] = []
        single: list[tuple[int, int, float]] = []
        nothing: list[tuple[int, float]] = []

        def number(part: object) -> int:
            """The number of a nonterminal, of a symbol in a row, or of the rest of a row."""
            if part not in self._numbers:
                self._numbers[part] = len(self._numbers)
                if isinstance(part, str):
                    single.append((self._numbers[part], symbols[part], 1.0))
                elif isinstance(part, tuple):
                    cut(part, self._numbers[part])
            return self._numbers[part]

        def cut(row: tuple[object, ...], whole: int, weight: float = 1.0) -> None:
            rest = row[1] if len(row) == 2 else row[1:]
            pairs.append((whole, number(row[0]), number(rest), weight))

        for production in grammar.productions:
            whole = number(production.left)
            weight = grammar.probability(production)
            row = production.right
            if not row:
                nothing.append((whole, weight))
            elif len(row) > 1:
                cut(row, whole, weight)
            elif isinstance(row[0], Nonterminal):
                chains.append((whole, number(row[0]), weight))
            else:
                single.append((whole, symbols[row[0]], weight))
        self.size = len(self._numbers)
        self.whole, self.left, self.right = (
            np.array([pair[i] for pair in pairs], dtype=np.int64) for i in range(3)
        )
        self.weight = np.array([pair[3] for pair in pairs], dtype=np.float64)
        self.chains = np.zeros((self.size, self.size))
        for whole, part, weight in chains:
            self.chains[whole, part] += weight
        self.symbols = np.zeros((len(symbols), self.size))
        for whole, symbol, weight in single:
            self.symbols[symbol, whole] += weight
        self.empty = np.zeros(self.size)
        for whole, weight in nothing:
            self.empty[whole] += weight
        self.ending = self.empty + self.symbols.sum(axis=0)

    def made(self, values: Vector, ends: Vector) -> Vector:
        """The value of each nonterminal, given the values of its parts and of its ends."""
        sums = ends + self.chains @ values
        np.add.at(sums, self.whole, self.weight * values[self.left] * values[self.right])
        return np.asarray(sums)

    def slope(self, values: Vector) -> Float[np.ndarray, "nonterminals nonterminals"]:
        """The derivative of ``made``."""
        slope = self.chains.copy()
        np.add.at(slope, (self.whole, self.left), self.weight * values[self.right])
        np.add.at(slope, (self.whole, self.right), self.weight * values[self.left])
        return slope

    @property
    def may_be_empty(self) -> Bool[np.ndarray, " nonterminals"]:
        """Whether the empty word comes of each nonterminal."""
        empty = self.empty > 0
        while True:
            grown = self.made(empty.astype(np.float64), self.empty) > 0
            if (grown == empty).all():
                return empty
            empty = grown


def _least(
    size: int, function: Callable[[Vector], Vector], slope: Callable[[Vector], np.ndarray]
) -> Vector:
    """The least solution of x = function(x), by Newton's method from 0 (Etessami, Yannakakis)."""
    values = np.zeros(size)
    for _ in range(200):
        gap = function(values) - values
        step = np.linalg.lstsq(np.eye(size) - slope(values), gap, rcond=None)[0]
        values = values + np.maximum(step, 0.0)
        if np.abs(step).max() < 1e-14:
            break
    return np.minimum(values, 1.0)


def _reached(edges: Bool[np.ndarray, "from to"]) -> Bool[np.ndarray, "from to"]:
    """Reachability over any number of edges; each node reaches itself over none."""
    reached = edges | np.eye(len(edges), dtype=bool)
    while True:
        further = (reached.astype(np.int64) @ reached.astype(np.int64)) > 0
        if (further == reached).all():
            return reached
        reached = further
