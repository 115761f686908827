"""Evidence of labelled lines for a rule: its code length, and the look of its exceptions.

A two-part code (Rissanen 1978) writes down a rule and then its exceptions. A larger rule is better
only if it saves more bits on exceptions than it costs itself. A rule in words and the table of an
automaton are two ways of one code. Their lengths can be compared. And exceptions are noise only if
they look like noise: if they share a word, a length or an end, the rule is not the whole rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool
from scipy.special import gammaln
from scipy.stats import hypergeom

from interp.automata.extraction import symbol_classes
from interp.automata.rules import FAMILIES, Rule

PAIRED = 12
"""Exceptions are searched for pairs of so many symbols, those that most of them contain."""


def exception_bits(lines: int, wrong: int) -> float:
    """Bits that say which of the lines are exceptions: first how many, then which.

    Args:
        lines: number of lines.
        wrong: number of exceptions among them.
    """
    return float(np.log2(lines + 1) + _log2_choose(lines, wrong))


def constant_bits(labels: Bool[np.ndarray, " lines"]) -> float:
    """Bits of the code that knows no rule and lists the lines of the rarer label as exceptions."""
    return exception_bits(len(labels), int(min(labels.sum(), (~labels).sum())))


def _integer_bits(number: int) -> float:
    """Bits of a universal code of the integers from 1 on (Elias 1975; Rissanen 1983).

    The larger the number, the more bits: log2 of it, log2 of that, as long as they are positive,
    and a constant that makes the code complete.
    """
    bits, rest = float(np.log2(2.865064)), float(np.log2(number))
    while rest > 0:
        bits, rest = bits + rest, float(np.log2(rest))
    return bits


def automaton_bits(dfa: DFA, symbols: Sequence[str]) -> float:
    """Bits that write down a complete automaton.

    First a bit says that a table follows. Then come the number of states and of classes of symbols
    that the automaton never tells apart, and the class of each symbol. For each state there is a
    target for each class, and whether the state accepts. The order of the states but the first,
    and of the classes, says nothing: its bits are given back.
    """
    states, classes = len(dfa.states), len(symbol_classes(dfa, symbols))
    named = len(symbols) * np.log2(classes) - gammaln(classes + 1) / np.log(2)
    rows = states * classes * np.log2(states) + states - gammaln(states) / np.log(2)
    return float(1 + _integer_bits(states) + _integer_bits(classes) + max(0.0, named) + rows)


def rule_bits(rule: Rule, symbols: Sequence[str]) -> float:
    """Bits that write down a rule."""
    return size_bits(rule.size, rule.counts, len(symbols))


def size_bits(size: int, counts: Sequence[int], alphabet: int) -> float:
    """Bits that write down a rule of a size, as in ``Rule``.

    First a bit says that a rule in words follows. Then comes a family or a symbol for each of its
    parts, and each count, such as the 8 of "at least 8", in the universal code.
    """
    parts = (size + 1) * np.log2(alphabet + FAMILIES)
    return float(1 + parts + sum(_integer_bits(count + 1) for count in counts))


@dataclass(frozen=True)
class Leftovers:
    """The most telling feature of the lines that contradict a rule.

    Attributes:
        feature: the most telling common feature, in words; "" if there is nothing to compare.
        p: its two-sided hypergeometric p-value times the number of features tried; at most 1.
    """

    feature: str
    p: float


def leftovers(
    words: Sequence[Sequence[str]],
    labels: Bool[np.ndarray, " words"],
    verdicts: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
) -> Leftovers:
    """Do the lines that contradict a rule look like the lines that obey it?

    Lines that the rule accepts are compared among themselves, and so are those that it rejects,
    because noise may hit one label more often than the other. The features are that a line contains
    a symbol, or contains it twice, its first and its last symbol, a length above the median, and
    two symbols side by side or in order, of those that the exceptions have most.

    Args:
        labels: labels of the lines.
        verdicts: the rule's verdicts on the lines.
        symbols: the alphabet.
    """
    wrong = labels != verdicts
    if not wrong.any():
        return Leftovers("", 1.0)
    names, present = _features(words, symbols)
    pairs, together = _pairs(words, _commonest(words, wrong, symbols))
    names, present = names + pairs, np.concatenate([present, together], axis=1)
    best, tried = Leftovers("", 1.0), 0
    for verdict in (True, False):
        rows = verdicts == verdict
        exceptions, total = int((wrong & rows).sum()), int(rows.sum())
        if not 0 < exceptions < total:
            continue
        having = present[rows].sum(axis=0)
        hits = present[rows & wrong].sum(axis=0)
        law = hypergeom(total, having, exceptions)
        p = np.minimum(1.0, 2 * np.minimum(law.cdf(hits), law.sf(hits - 1)))
        tried += int(((having > 0) & (having < total)).sum())
        at = int(p.argmin())
        if p[at] < best.p:
            side = "accepted" if verdict else "rejected"
            text = f"{hits[at]} of {exceptions} contradicted lines that are {side} {names[at]}, "
            rest, others = having[at] - hits[at], total - exceptions
            best = Leftovers(f"{text}but {rest} of the {others} others", float(p[at]))
    return Leftovers(best.feature, min(1.0, best.p * max(tried, 1)))


def _features(
    words: Sequence[Sequence[str]], symbols: Sequence[str]
) -> tuple[list[str], Bool[np.ndarray, "words features"]]:
    number = {symbol: index for index, symbol in enumerate(symbols)}
    counts = np.zeros((len(words), len(symbols)), dtype=np.int64)
    first, last = np.zeros_like(counts, dtype=bool), np.zeros_like(counts, dtype=bool)
    for row, word in enumerate(words):
        for symbol in word:
            counts[row, number[symbol]] += 1
        if word:
            first[row, number[word[0]]] = last[row, number[word[-1]]] = True
    lengths = counts.sum(axis=1)
    middle = int(np.median(lengths))
    names = [
        template.format(symbol)
        for template in ("contain {}", "contain {} twice", "start with {}", "end with {}")
        for symbol in symbols
    ]
    present = np.concatenate(
        [counts > 0, counts > 1, first, last, (lengths > middle)[:, None]], axis=1
    )
    return [*names, f"are longer than {middle}"], present


def _commonest(
    words: Sequence[Sequence[str]], wrong: Bool[np.ndarray, " words"], symbols: Sequence[str]
) -> list[str]:
    """The symbols that are in most of the wrong lines, in the order of the alphabet."""
    lines = Counter(s for row in np.flatnonzero(wrong).tolist() for s in set(words[row]))
    chosen = sorted(symbols, key=lambda symbol: -lines[symbol])[:PAIRED]
    return [symbol for symbol in symbols if symbol in chosen]


def _pairs(
    words: Sequence[Sequence[str]], symbols: Sequence[str]
) -> tuple[list[str], Bool[np.ndarray, "words features"]]:
    """Whether lines contain two symbols side by side, and two different ones in order."""
    number, size = {symbol: index for index, symbol in enumerate(symbols)}, len(symbols)
    beside = np.zeros((len(words), size, size), dtype=bool)
    ordered, seen = np.zeros_like(beside), np.zeros((len(words), size), dtype=bool)
    for row, word in enumerate(words):
        before = None
        for at in map(number.get, word):
            if at is not None:
                ordered[row, :, at] |= seen[row]
                seen[row, at] = True
                if before is not None:
                    beside[row, before, at] = True
            before = at
    names = [f"contain {a} {b} side by side" for a in symbols for b in symbols]
    names += [f"contain {a} ... {b} in this order" for a in symbols for b in symbols if a != b]
    ordered = ordered[:, ~np.eye(size, dtype=bool)]
    return names, np.concatenate([beside.reshape(len(words), -1), ordered], axis=1)


def _log2_choose(n: int, k: int) -> float:
    return float((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2))
