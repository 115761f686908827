"""Beyond the regular: the regular envelope of a language that counts, and its linear constraints.

No finite automaton knows a^n b^n. But its words have a regular shape, a+ b+, and their counts obey
linear equations, #a = #b. Both are read off accepted words (the shape as the strictly 2-local
language of their beginnings, neighbours and ends; the equations as the integer null space of their
count vectors), and both are then put to the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.extraction import Accepts, Word, regex, run
from interp.automata.rule_search import same

SURE = 0.98
"""Share of the words asked on which rule and network must agree."""
STRANGE = 0.1
"""Share of the accepted words that may be otherwise than the others."""
WRITTEN = 6
"""States of the largest shape that is written as an expression."""
NEAR = 200
"""Accepted words, some more than once, from which near misses are made, five of each."""
FEWEST = 8
"""Accepted words with different counts, fewer say nothing."""


@dataclass(frozen=True)
class Constraint:
    """A linear equation that the counts of all accepted words obey.

    Attributes:
        weights: of each symbol's count, in the order of the symbols; the first that is not 0 is
            positive.
        constant: what the weighted counts add up to.
    """

    weights: tuple[int, ...]
    constant: int

    def as_equation(self, symbols: Sequence[str]) -> str:
        """As an equation: positive terms on the left, the others on the right."""
        left: list[str] = []
        right: list[str] = []
        for weight, symbol in zip(self.weights, symbols, strict=True):
            if weight:
                term = f"#{symbol}" if abs(weight) == 1 else f"{abs(weight)} #{symbol}"
                (left if weight > 0 else right).append(term)
        if self.constant or not right:
            (right if self.constant >= 0 else left).append(str(abs(self.constant)))
        return f"{' + '.join(left)} = {' + '.join(right)}"


@dataclass(frozen=True)
class Envelope:
    """A shape and equations, with how the network answered when asked about them.

    Attributes:
        dfa: of the shape.
        shape: the same as a regular expression, "a+ b+"; "" where words of any shape are accepted.
        constraints: the equations.
        said: the equations in words, equal counts chained: "#a = #b = #c".
        name: "a^n b^n" where shape and equations are such a power; else None.
        inside: share of fresh words with this shape and these counts that the network accepts.
        outside: share of near misses that it rejects: the shape with other counts, and the counts
            in another shape.
        asked: fresh words and near misses asked.
    """

    dfa: DFA
    shape: str
    constraints: tuple[Constraint, ...]
    said: str
    name: str | None
    inside: float
    outside: float
    asked: int

    def obeyed(self, words: Sequence[Word], symbols: Sequence[str]) -> Bool[np.ndarray, " words"]:
        """True for words of this shape with these counts."""
        return run(self.dfa, words) & _obeyed(counts(words, symbols), self.constraints)

    @property
    def holds(self) -> bool:
        """Is it the network's rule, as far as was asked?"""
        return min(self.inside, self.outside) >= SURE


def envelope(
    accepts: Accepts, symbols: Sequence[str], words: Sequence[Word], seed: int = 0
) -> Envelope | None:
    """What shape and counts say of a network's accepted words; None where they say nothing.

    Half of the accepted words give shape and equations. All other words that obey are asked,
    whether accepted or not, and words that differ from accepted ones in a little. Where no equation
    holds for all of the half, a network may have accepted a strange word: then it holds for all but
    a few.

    Args:
        accepts: the network's verdicts on a batch of words.
        words: what to look among for accepted words.
    """
    rng = np.random.default_rng([seed, 0xE27E])
    every = list(dict.fromkeys(words[i] for i in rng.permutation(len(words)) if words[i]))
    if not every:
        return None
    judged = accepts(every)
    accepted = [word for word, yes in zip(every, judged, strict=True) if yes]
    given = accepted[::2]
    near = (
        made
        for word in accepted * (1 + NEAR // max(1, len(accepted)))
        for made in _edits(word, symbols, rng)
    )
    close = {word for word in near if word}
    asked, hard = list(dict.fromkeys([*every, *sorted(close)])), close | set(accepted)
    found = []
    for some, robust in ((given, False), (given, True), (typical(given), True)):
        table = np.unique(counts(some, symbols), axis=0)
        if len(table) < FEWEST:
            continue
        equations = _common(table, rng) if robust else constraints(table)
        if not equations:
            continue
        dfa, used = local(some, symbols), set(some)
        obeyed = run(dfa, asked) & _obeyed(counts(asked, symbols), equations)
        telling = [w not in used and (o or w in hard) for w, o in zip(asked, obeyed, strict=True)]
        expected = obeyed[telling]
        if expected.any() and not expected.all():  # else the network would be asked one-sidedly
            answers = accepts([word for word, yes in zip(asked, telling, strict=True) if yes])
            shape = _shape(dfa, some, symbols)
            found.append(_told(dfa, shape, equations, symbols, expected, answers))
    return min(found, key=lambda each: (not each.holds, len(each.shape)), default=None)


def _told(
    dfa: DFA,
    shape: str,
    equations: tuple[Constraint, ...],
    symbols: Sequence[str],
    expected: Bool[np.ndarray, " asked"],
    answers: Bool[np.ndarray, " asked"],
) -> Envelope:
    """Shape and equations with the network's answers."""
    said, power = _said(equations, symbols), _power(shape, equations, symbols)
    inside, outside = float(answers[expected].mean()), float(1 - answers[~expected].mean())
    return Envelope(dfa, shape, equations, said, power, inside, outside, len(answers))


def typical(words: Sequence[Word]) -> list[Word]:
    """The words without a first symbol, neighbours or a last symbol that few of the others have: a
    network accepts a strange word now and then."""
    parts = [{("", w[0]), (w[-1], ""), *pairwise(w)} for w in words]
    times = Counter(part for each in parts for part in each)
    least = STRANGE * len(words)
    return [w for w, each in zip(words, parts, strict=True) if all(times[p] > least for p in each)]


def local(words: Sequence[Word], symbols: Sequence[str]) -> DFA:
    """The strictly 2-local language of the words: their first symbols, neighbours and last symbols.

    The smallest such language that holds all of them (McNaughton and Papert 1971).
    """
    first = {word[0] for word in words}
    pairs = {pair for word in words for pair in pairwise(word)}
    last = {word[-1] for word in words}
    rows: dict[str, dict[str, str]] = {
        "start": {s: f"after {s}" if s in first else "dead" for s in symbols},
        "dead": dict.fromkeys(symbols, "dead"),
    }
    for one in symbols:
        rows[f"after {one}"] = {s: f"after {s}" if (one, s) in pairs else "dead" for s in symbols}
    return DFA(
        states=set(rows),
        input_symbols=set(symbols),
        transitions=rows,
        initial_state="start",
        final_states={f"after {s}" for s in last},
    ).minify()


def counts(words: Sequence[Word], symbols: Sequence[str]) -> np.ndarray:
    """How often each symbol occurs in each word, [words, symbols]."""
    table = [[Counter(word)[symbol] for symbol in symbols] for word in words]
    return np.array(table, dtype=np.int64).reshape(len(words), len(symbols))


def constraints(table: np.ndarray) -> tuple[Constraint, ...]:
    """A basis of the linear equations that all rows of counts obey, exact, in small integers."""
    rows = np.unique(table, axis=0)
    found = []
    for whole in _nullspace(np.concatenate([rows, -np.ones((len(rows), 1), np.int64)], axis=1)):
        if not any(whole[:-1]):
            continue
        divisor = gcd(*whole)
        sign = 1 if next(w for w in whole if w) > 0 else -1
        *weights, constant = (sign * w // divisor for w in whole)
        found.append(Constraint(tuple(weights), constant))
    return tuple(found)


def _nullspace(matrix: np.ndarray) -> list[list[int]]:
    """A basis of the vectors that it maps to zero, exact, in whole numbers."""
    import sympy  # here: who looks for no equations need not wait for it

    basis = []
    for vector in sympy.Matrix(matrix.tolist()).nullspace():
        scale = sympy.ilcm(*(entry.q for entry in vector))
        basis.append([int(entry * scale) for entry in vector])
    return basis


def _common(table: np.ndarray, rng: np.random.Generator) -> tuple[Constraint, ...]:
    """The most equations that all but a few rows obey: those of some rows, drawn several times."""
    size = max(FEWEST, table.shape[1] + 2)
    tried = [constraints(table[rng.permutation(len(table))[:size]]) for _ in range(20)]
    fit = [e for e in tried if _obeyed(table, e).mean() >= 1 - STRANGE]
    return max(fit, key=len, default=())


def _obeyed(table: np.ndarray, equations: Sequence[Constraint]) -> np.ndarray:
    obeyed = np.ones(len(table), dtype=bool)
    for equation in equations:
        obeyed &= table @ np.array(equation.weights) == equation.constant
    return obeyed


def _edits(word: Word, symbols: Sequence[str], rng: np.random.Generator) -> Iterator[Word]:
    """One symbol more, one less, another one, and two neighbours swapped, each at random; then the
    same symbols in another order."""
    at = int(rng.integers(len(word)))
    other = symbols[int(rng.integers(len(symbols)))]
    yield (*word[:at], word[at], *word[at:])
    yield (*word[:at], *word[at + 1 :])
    yield (*word[:at], other, *word[at + 1 :])
    if at:
        yield (*word[: at - 1], word[at], word[at - 1], *word[at + 1 :])
    yield tuple(word[i] for i in rng.permutation(len(word)))


def _shape(dfa: DFA, words: Sequence[Word], symbols: Sequence[str]) -> str:
    """ "a+ b+" where all words are the same row of runs, "" for any shape; else an expression."""
    if same(dfa, DFA.universal_language(set(symbols))):
        return ""
    rows = {
        tuple(s for s, t in zip(word, (*word[1:], ""), strict=True) if s != t) for word in words
    }
    if len(rows) == 1 and len(set(row := rows.pop())) == len(row):
        return " ".join(f"{symbol}+" for symbol in row)
    states = len(dfa.states)
    return regex(dfa, symbols) if states <= WRITTEN else f"(an automaton of {states} states)"


def _said(equations: Sequence[Constraint], symbols: Sequence[str]) -> str:
    """The equations, those of equal counts chained."""
    group = {symbol: symbol for symbol in symbols}
    rest = []
    for equation in equations:
        nonzero = [s for s, w in zip(symbols, equation.weights, strict=True) if w]
        if sorted(w for w in equation.weights if w) == [-1, 1] and not equation.constant:
            old, new = group[nonzero[1]], group[nonzero[0]]
            group = {s: new if g == old else g for s, g in group.items()}
        else:
            rest.append(equation.as_equation(symbols))
    chains = [[s for s in symbols if group[s] == g] for g in dict.fromkeys(group.values())]
    equal = [" = ".join(f"#{s}" for s in chain) for chain in chains if len(chain) > 1]
    return ", ".join(equal + rest)


def _power(shape: str, equations: Sequence[Constraint], symbols: Sequence[str]) -> str | None:
    """ "a^n b^2n": every symbol once in the shape, one free number, no constant."""
    row = [part.removesuffix("+") for part in shape.split(" ")]
    if set(row) != set(symbols) or not all(part.endswith("+") for part in shape.split(" ")):
        return None
    if len(equations) != len(symbols) - 1 or any(e.constant for e in equations):
        return None
    (whole,) = _nullspace(np.array([e.weights for e in equations]))
    times = {s: w // gcd(*whole) for s, w in zip(symbols, whole, strict=True)}
    return " ".join(f"{s}^{'' if times[s] == 1 else times[s]}n" for s in row)
