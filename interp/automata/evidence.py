"""How well labelled lines speak for a rule: its code length, and what its exceptions look like.

A two-part code (Rissanen 1978) writes down a rule and then its exceptions. A larger rule is better
only if it saves more bits on exceptions than it costs itself. And exceptions are noise only if they
look like noise: if they share a word, a length or an end, the rule is not the whole rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool
from scipy.special import gammaln
from scipy.stats import hypergeom

from interp.automata.extraction import symbol_classes
from interp.automata.rules import Rule


def exception_bits(lines: int, wrong: int) -> float:
    """Bits that say which of the lines are exceptions: first how many, then which.

    Args:
        lines: how many lines there are.
        wrong: how many of them are exceptions.
    """
    return float(np.log2(lines + 1) + _log2_choose(lines, wrong))


def automaton_bits(dfa: DFA, symbols: Sequence[str]) -> float:
    """Bits that write down a complete automaton.

    They name the classes of symbols that it never tells apart, then for each state a target for
    each class, and whether the state accepts.
    """
    sizes = np.array([len(group) for group in symbol_classes(dfa, symbols)])
    classes = gammaln(sizes.sum() + 1) - gammaln(sizes + 1).sum()
    states = len(dfa.states)
    rows = states * len(sizes) * np.log2(max(states, 1)) + states
    return float(np.log2(sizes.sum() + 1) * len(sizes) + classes / np.log(2) + rows)


def rule_bits(rule: Rule, symbols: Sequence[str]) -> float:
    """Bits that write down a rule: a family or a symbol for each of its parts."""
    return float((rule.size + 1) * np.log2(len(symbols) + 16))


@dataclass(frozen=True)
class Leftovers:
    """What the lines that contradict a rule have in common.

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
    a symbol, or contains it twice, its first and its last symbol, and a length above the median.

    Args:
        labels: of the lines.
        verdicts: of the rule.
        symbols: the alphabet.
    """
    wrong = labels != verdicts
    names, present = _features(words, symbols)
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
            said = f"{hits[at]} of {exceptions} contradicted lines that are {side} {names[at]}, "
            rest, others = having[at] - hits[at], total - exceptions
            best = Leftovers(f"{said}but {rest} of the {others} others", float(p[at]))
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


def _log2_choose(n: int, k: int) -> float:
    return float((gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)) / np.log(2))
