"""The shortest formulas of literals that set two groups of words apart.

Literals grow letter by letter, those first that tell most about the labels. Formulas grow by a
literal at a time, joined by and, or, xor; a beam of the shortest codes is kept. Where a formula is
still wrong, literals grow anew on the words that it accepts, and on those that it rejects. Rules of
one class of literals alone are sought, too, and each class is seen at its best.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal as Either

import numpy as np
from jaxtyping import Bool, Float

from interp.automata.equivalence import Word
from interp.automata.evidence import exception_bits, size_bits
from interp.automata.formulas.literals import Literal
from interp.automata.formulas.pool import CHOSEN, FRONT, Pool
from interp.automata.rules import Rule

Way = Either["is", "not", "and", "or", "xor"]
"""One literal, its denial, or how two formulas are joined."""
JOINS = {"and": Rule.__and__, "or": Rule.__or__, "xor": Rule.__xor__}
BEAM, DEPTH = 25, 8
"""Formulas that are kept at a time; joins in the longest."""
ROUNDS = 3
"""So often literals grow where the best formula is wrong."""
BEYOND = 20.0
"""Another rule is of interest if its code is longer than the best by so many bits at most: it is
then not a million times less likely."""
SWAPPED = 15
"""So many of the best formulas are tried with so many other literals."""
MOST_WORDS, MOST_SYMBOLS = 2000, 75_000
"""Limits of a search: of more words, or of more symbols in all, some are drawn."""
CLASSES: dict[str, set[str]] = {
    "local": {"local"},
    "piecewise": {"piecewise"},
    "piecewise local": {"local", "piecewise", "piecewise local"},
    "threshold": {"local", "threshold"},
    "modulo": {"modulo"},
    "runs": {"runs"},
    "nested": {"nested"},
}
"""The families of literals that each class of rules is made of."""


@dataclass(frozen=True, eq=False)
class Formula:
    """A literal, its denial, or two formulas joined.

    Attributes:
        way: "is" or "not" for one literal, else how the two parts are joined.
        literals: all literals, from left to right.
        parts: the two formulas; none for one literal.
        fits: the verdicts on the words of the search.
        size: number of parts, as in ``Rule``.
        counts: the numbers that it names.
    """

    way: Way
    literals: tuple[Literal, ...]
    parts: tuple[Formula, ...]
    fits: Bool[np.ndarray, " words"]
    size: int
    counts: tuple[int, ...]

    def bits(self, alphabet: int) -> float:
        """Bits that write it down."""
        return size_bits(self.size, self.counts, alphabet)

    def rule(self, symbols: Sequence[str], told: bool = True) -> Rule:
        """The formula in words, with its automaton. A tier that all literals share is said once.

        Args:
            told: whether the words say what the tier leaves out.
        """
        if not self.parts:
            rule = self.literals[0].rule(symbols, told)
            return ~rule if self.way == "not" else rule
        tiers = {literal.left_out(symbols) for literal in self.literals}
        once = min(tiers) if told and len(tiers) == 1 else ""
        one, other = (part.rule(symbols, told and not once) for part in self.parts)
        rule = JOINS[self.way](one, other)
        if not once:
            return rule
        count = len(self.literals)
        aside = f" ({'both' if count == 2 else f'all {count}'} {once})"
        return replace(rule, text=rule.text + aside, denial=rule.denial + aside)

    def swapped(self, old: Literal, new: Literal, alphabet: int) -> Formula:
        """The same formula with another literal, which has the same verdicts, in one's place."""
        if not self.parts:
            denied = self.way == "not"
            return _literally(new, self.fits, alphabet, denied) if self.literals == (old,) else self
        one, other = (part.swapped(old, new, alphabet) for part in self.parts)
        return _joined(self.way, one, other)


@dataclass(frozen=True)
class Fit:
    """A formula and its code.

    Attributes:
        formula: the formula.
        wrong: number of words of the search on which it differs from the label.
        bits: code length of the formula and its exceptions.
        tried: number of rules of its class that were compared to find it.
    """

    formula: Formula
    wrong: int
    bits: float
    tried: int


@dataclass(frozen=True)
class Searched:
    """The result of a search.

    Attributes:
        best: the shortest code of each class, and of all literals together under "any".
        others: formulas that are wrong on no more words than the best of all, shortest first. Many
            of them have the same verdicts on the words of the search.
    """

    best: dict[str, Fit]
    others: list[Fit]


def search(
    words: Sequence[Word], labels: Bool[np.ndarray, " words"], symbols: Sequence[str]
) -> Searched:
    """The best formulas of each class, and of all literals together.

    Args:
        words: at least one.
        labels: True for the words that the formula should accept.
        symbols: the alphabet.
    """
    number = {symbol: index for index, symbol in enumerate(symbols)}
    rows = _some(words)
    letters = [tuple(number[symbol] for symbol in words[row]) for row in rows]
    pool = Pool(letters, labels[rows], len(symbols))
    every = np.ones(len(rows), dtype=bool)
    tiers = pool.begin()
    pool.grow(tiers, every, FRONT)
    beam = Beam(pool, pool.telling([every], None))
    best = beam.grown([])
    for _ in range(ROUNDS):
        if best.wrong == 0:
            break
        sides = [best.formula.fits, ~best.formula.fits]
        for mask in sides:
            pool.grow(tiers, mask, FRONT // 2)
        beam = Beam(pool, pool.telling([every, *sides], None))
        before, best = best, beam.grown([best])
        if best.bits >= before.bits:
            break
    by_class, alike = {"any": best}, list(beam.alike.values())
    for name, families in CLASSES.items():
        if chosen := pool.telling([every], families):
            alone = Beam(pool, chosen)
            by_class[name] = alone.grown([])
            alike += alone.alike.values()
    return Searched(by_class, _others(pool, alike))


def _others(pool: Pool, fits: Sequence[Fit]) -> list[Fit]:
    """The fits that are wrong on no more words than the best, and the same with other literals that
    have the same verdicts; not much longer than the best."""
    best = min(fits, key=lambda fit: fit.bits)
    some = sorted((fit for fit in fits if fit.wrong <= best.wrong), key=lambda fit: fit.bits)
    by_column: dict[bytes, list[Literal]] = {}
    for literal in (pool.literals[i] for i in np.argsort(pool.bits, kind="stable")):
        by_column.setdefault(pool.column(literal), []).append(literal)
    others = list(some)
    for fit in some[:SWAPPED]:
        for old in fit.formula.literals:
            for new in by_column[pool.column(old)][:SWAPPED]:
                formula = fit.formula.swapped(old, new, pool.alphabet)
                longer = formula.bits(pool.alphabet) - fit.formula.bits(pool.alphabet)
                others.append(Fit(formula, fit.wrong, fit.bits + longer, fit.tried))
    short = (fit for fit in others if fit.bits <= best.bits + BEYOND)
    return sorted(short, key=lambda fit: fit.bits)


def _some(words: Sequence[Word]) -> list[int]:
    """The words to search on."""
    rows: list[int] = []
    room = MOST_SYMBOLS
    for row in np.random.default_rng(0).permutation(len(words))[:MOST_WORDS].tolist():
        room -= len(words[row])
        if room < 0 and rows:
            break
        rows.append(row)
    return sorted(rows)


class Beam:
    """Formulas that grow by a literal at a time; of those with the same verdicts the shortest."""

    def __init__(self, pool: Pool, places: Sequence[int]) -> None:
        self.pool, self.labels = pool, pool.labels
        count = len(self.labels)
        self.exceptions = np.array([exception_bits(count, wrong) for wrong in range(count + 1)])
        self.exceptions[count // 2 + 1 :] = np.inf  # then its denial is the better rule
        columns = np.unpackbits(pool.packed[list(places)], axis=1, count=count).astype(bool)
        self.single: list[Formula] = []
        for place, column in zip(places, columns, strict=True):
            literal = pool.literals[place]
            self.single.append(_literally(literal, column, pool.alphabet))
            self.single.append(_literally(literal, ~column, pool.alphabet, denied=True))
        self.tried = Counter(pool.families)
        self.kept: dict[bytes, Fit] = {}
        self.alike: dict[tuple[bytes, str], Fit] = {}

    def grown(self, fits: Sequence[Fit]) -> Fit:
        """The formula with the shortest code.

        Args:
            fits: formulas to go on with.
        """
        for formula in self.single:
            self._keep(formula, 2 * self.tried[formula.literals[0].family])
        for fit in fits:
            self._keep(fit.formula, fit.tried)
        verdicts = np.array([one.fits for one in self.single], dtype=np.float32)
        best = self._shortest(len(self.single) if len(self.single) <= 2 * CHOSEN else BEAM)
        for _ in range(DEPTH):
            before = best[0].bits
            self._join([fit.formula for fit in best], verdicts)
            best = self._shortest(BEAM)
            if best[0].bits >= before - 1e-9:
                break
        return best[0]

    def _shortest(self, most: int) -> list[Fit]:
        return sorted(self.kept.values(), key=lambda fit: fit.bits)[:most]

    def _keep(self, formula: Formula, tried: int) -> None:
        wrong = int((formula.fits != self.labels).sum())
        bits = formula.bits(self.pool.alphabet) + self.exceptions[wrong]
        fit = Fit(formula, wrong, bits, tried)
        key = np.packbits(formula.fits).tobytes()
        if key not in self.kept or fit.bits < self.kept[key].bits:
            self.kept[key] = fit
        # Rules that say the same of these words may differ on others: one of each shape is kept,
        # unless a part of it says the same already.
        if any((part.fits == formula.fits).all() for part in formula.parts):
            return
        shape = " ".join([formula.way, *(literal.family for literal in formula.literals)])
        if (key, shape) not in self.alike or fit.bits < self.alike[key, shape].bits:
            self.alike[key, shape] = fit

    def _join(self, formulas: Sequence[Formula], verdicts: Float[np.ndarray, "n words"]) -> None:
        """Joins formulas with all literals, and keeps those joins that have the shortest codes.

        How many words two formulas both accept, and how many of these are labelled so, says of all
        pairs at once on how many words their joins are wrong.
        """
        goal = self.labels.astype(np.float32)
        rows = np.array([formula.fits for formula in formulas], dtype=np.float32)
        both, both_right = rows @ verdicts.T, (rows * goal) @ verdicts.T
        sums_ = rows.sum(axis=1)[:, None] + verdicts.sum(axis=1)
        right = (rows @ goal)[:, None] + verdicts @ goal
        size = self.pool.alphabet
        written = np.array([formula.bits(size) for formula in formulas])[:, None]
        written = written + np.array([formula.bits(size) for formula in self.single])
        written, exceptions = written.astype(np.float32), self.exceptions.astype(np.float32)
        joins: dict[Way, tuple[np.ndarray, np.ndarray]] = {
            "and": (both, both_right),
            "or": (sums_ - both, right - both_right),
            "xor": (sums_ - 2 * both, right - 2 * both_right),
        }
        for join, (accepted, hits) in joins.items():
            wrong = np.rint(accepted + goal.sum() - 2 * hits).astype(np.int32)
            bits = (written + exceptions.take(wrong)).ravel()
            best = np.argpartition(bits, min(4 * BEAM, bits.size) - 1)[: 4 * BEAM]
            for at in np.sort(best).tolist():
                one, other = formulas[at // len(self.single)], self.single[at % len(self.single)]
                self._keep(_joined(join, one, other), 3 * bits.size)
        short = formulas[:BEAM]
        for one, other in combinations(short, 2):
            for join in ("and", "or"):
                self._keep(_joined(join, one, other), 3 * bits.size)


def _literally(
    literal: Literal, fits: Bool[np.ndarray, " words"], alphabet: int, denied: bool = False
) -> Formula:
    """A literal, or its denial, as a formula."""
    way: Way = "not" if denied else "is"
    size = literal.size(alphabet) + denied
    return Formula(way, (literal,), (), fits, size, literal.counts)


def _joined(way: Way, one: Formula, other: Formula) -> Formula:
    """Two formulas as one, joined by "and", "or" or "xor"."""
    join = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[way]
    size, counts = one.size + other.size + 1, one.counts + other.counts
    literals = one.literals + other.literals
    return Formula(way, literals, (one, other), join(one.fits, other.fits), size, counts)
