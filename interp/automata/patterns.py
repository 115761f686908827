"""The word pattern that sets two groups of lines apart best.

All patterns are tried by an exact test, and its p is corrected for how many were tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool
from scipy.stats import hypergeom

from interp.automata.rules import Families, Rule

MOST_SYMBOLS = 12
"""If there are more symbols, patterns are made only of those that by themselves tell the groups
apart best."""


@dataclass(frozen=True)
class Pattern:
    """The pattern that sets the groups apart best.

    Attributes:
        rule: that a line has the pattern, or its denial if the positive lines lack the pattern.
        text: the pattern itself, such as "contains x ... y in this order".
        having: how many positive and how many negative lines have the pattern.
        lines: how many positive and how many negative lines there are.
        log10_p: of Fisher's exact test, two-sided (twice the smaller tail), before the correction.
        tried: how many patterns were tried.
    """

    rule: Rule
    text: str
    having: tuple[int, int]
    lines: tuple[int, int]
    log10_p: float
    tried: int

    @property
    def corrected_p(self) -> float:
        """p times the number of patterns tried (Bonferroni), at most 1."""
        return float(min(1.0, self.tried * 10.0**self.log10_p))


def best_pattern(
    words: Sequence[Sequence[str]],
    labels: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
    longest: int = 3,
) -> Pattern:
    """Tries all patterns of up to three symbols: in order with gaps, or side by side.

    Args:
        words: the lines, at least one.
        labels: True for the lines of the positive group.
        symbols: the alphabet.
        longest: the most symbols in a pattern: 1, 2 or 3.
    """
    used = list(symbols)
    if len(used) > MOST_SYMBOLS:
        alone = _presence(words, used, 1)[("contains", 1)]
        least = _log_p(alone, labels)
        used = [used[i] for i in sorted(np.argsort(least, kind="stable")[:MOST_SYMBOLS])]
    tried, best = 0 if used == list(symbols) else len(symbols), (0.0, ("contains", 1), 0)
    presence = _presence(words, used, longest)
    for kind, present in presence.items():
        least = _log_p(present, labels)
        tried += len(least)
        at = int(least.argmin())
        if least[at] < best[0]:
            best = (float(least[at]), kind, at)
    log_p, kind, at = best
    way, length = kind
    letters = [used[i] for i in np.unravel_index(at, (len(used),) * length)]
    families = Families(tuple(symbols))
    rule = families.contains(*letters) if way == "contains" else families.side_by_side(*letters)
    having = presence[kind][:, at]
    inside, outside = int(having[labels].sum()), int(having[~labels].sum())
    yes, no = int(labels.sum()), int((~labels).sum())
    lacks = inside * no < outside * yes
    return Pattern(
        ~rule if lacks else rule,
        rule.text,
        (inside, outside),
        (yes, no),
        log_p / np.log(10),
        tried,
    )


def _presence(
    words: Sequence[Sequence[str]], symbols: Sequence[str], longest: int
) -> dict[tuple[str, int], Bool[np.ndarray, "words patterns"]]:
    """Which lines have which pattern, by kind and length of the pattern.

    Patterns stand in the order of ``itertools.product``.
    """
    number, size = {symbol: i for i, symbol in enumerate(symbols)}, len(symbols)
    shapes = [(size,) * length for length in range(1, longest + 1)]
    gaps = [np.zeros((len(words), *shape), dtype=bool) for shape in shapes]
    close = [np.zeros((len(words), *shape), dtype=bool) for shape in shapes]
    for row, word in enumerate(words):
        recent: tuple[int, ...] = ()
        for symbol in word:
            at = number.get(symbol)
            if at is None:  # patterns are not made of this symbol
                recent = ()
                continue
            for length in range(longest - 1, 0, -1):
                gaps[length][row, ..., at] |= gaps[length - 1][row]
            gaps[0][row, at] = True
            recent = (*recent, at)[-longest:]
            for length in range(2, len(recent) + 1):
                close[length - 1][(row, *recent[-length:])] = True
    found = {("contains", i + 1): each.reshape(len(words), -1) for i, each in enumerate(gaps)}
    for i, each in enumerate(close[1:], 2):
        found["side by side", i] = each.reshape(len(words), -1)
    return found


def _log_p(present: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The natural logarithm of the two-sided p of each column, [patterns], at most 0."""
    hits, having = present[labels].sum(axis=0), present.sum(axis=0)
    law = hypergeom(len(labels), int(labels.sum()), having)
    tail = np.minimum(law.logsf(hits - 1), law.logcdf(hits))
    return np.minimum(0.0, tail + np.log(2))
