"""Beyond the regular: the regular envelope of a language that counts, and its linear constraints.

No finite automaton knows a^n b^n. But its words have a regular shape, a+ b+, and their counts obey
a linear equation, #a = #b. Both are read off accepted words. The shape is their strictly 2-local
language: it allows the first symbols, the pairs of neighbours and the last symbols that occur in
them. The equations are the integer null space of their count vectors. Both are then tested on the
network.
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

from interp.automata.equivalence import Word
from interp.automata.extraction import Accepts, regex, run
from interp.automata.rule_search import same

SURE = 0.98
"""Share of the words asked on which rule and network must agree."""
STRANGE = 0.1
"""Share of the accepted words that may be unlike the others."""
WRITTEN = 6
"""The most states of a shape that is written as an expression."""
NEAR = 200
"""At least so many times near misses are made from an accepted word, up to five each time; if there
are fewer words, some are used again."""
MOST_TOLD = 3
"""The most equations that are told; a chain such as #a = #b = #c is one."""
FEWEST = 8
"""The fewest different counts of accepted words from which equations are read."""


@dataclass(frozen=True)
class Constraint:
    """A linear equation that the counts of all accepted words obey.

    Attributes:
        weights: the weight of each symbol's count, in the order of the symbols; the first that is
            not 0 is positive.
        constant: the sum of the weighted counts.
    """

    weights: tuple[int, ...]
    constant: int

    def as_equation(self, symbols: Sequence[str]) -> str:
        """The equation as a text: positive terms on the left, the others on the right."""
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
    """A shape and equations, and how the network answered when they were tested on it.

    Attributes:
        dfa: the automaton of the shape.
        shape: the same as a regular expression, "a+ b+"; "" if words of any shape are accepted.
        constraints: the equations.
        said: the equations as a text, with equal counts in one chain: "#a = #b = #c".
        name: such as "a^n b^n", if shape and equations have this form; else None.
        inside: share of fresh words with this shape and these counts that the network accepts.
        outside: share of near misses that it rejects: the shape with other counts, and the counts
            in another shape.
        asked: number of fresh words and near misses that the network was asked about.
        obeying: number of them that obey.
    """

    dfa: DFA
    shape: str
    constraints: tuple[Constraint, ...]
    said: str
    name: str | None
    inside: float
    outside: float
    asked: int
    obeying: int

    def obeyed(self, words: Sequence[Word], symbols: Sequence[str]) -> Bool[np.ndarray, " words"]:
        """True for words of this shape with these counts."""
        return run(self.dfa, words) & _obeyed(counts(words, symbols), self.constraints)

    @property
    def holds(self) -> bool:
        """Is this the network's rule, as far as the network was asked?"""
        return min(self.inside, self.outside) >= SURE


def envelope(
    accepts: Accepts, symbols: Sequence[str], words: Sequence[Word], seed: int = 0
) -> Envelope | None:
    """The shape and the equations of a network's accepted words; None if they say nothing.

    Shape and equations are read off half of the accepted words. They are tested on words that were
    not used: on words that obey them, whether accepted or not, on the other accepted words, and on
    words that differ a little from accepted ones. An equation is told only if all accepted words of
    both kinds obey it, and if it excludes a word of this shape. But the network may have accepted a
    few strange words by mistake. So equations that hold for all but a few words are tried too, and
    once more without the strange words; these count only if they hold when they are tested. An
    attempt that holds is preferred to the others, then the shortest shape.

    Args:
        accepts: the network's verdicts on a batch of words.
        symbols: the alphabet.
        words: candidates among which accepted words are sought.
        seed: seed of all draws.
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
    pool, hard = list(dict.fromkeys([*every, *sorted(close)])), close | set(accepted)
    fresh = pool[len(every) :]
    verdicts = np.concatenate([judged, accepts(fresh)]) if fresh else judged
    numbers = counts(pool, symbols)
    attempts = []
    for some, robust in ((given, False), (given, True), (_typical(given), True)):
        table = np.unique(counts(some, symbols), axis=0)
        if len(table) < FEWEST:
            continue
        equations = _common(table, rng) if robust else constraints(table)
        if not robust:
            equations = tuple(e for e in equations if _obeyed(numbers[verdicts], [e]).all())
        dfa, used = local(some, symbols), set(some)
        shaped = run(dfa, pool)
        equations = _telling(equations, numbers[shaped & ~verdicts], symbols)
        if not equations:
            continue
        obeyed = shaped & _obeyed(numbers, equations)
        telling = [w not in used and (o or w in hard) for w, o in zip(pool, obeyed, strict=True)]
        expected = obeyed[telling]
        if expected.any() and not expected.all():  # the network is asked about both kinds of words
            answers = accepts([word for word, yes in zip(pool, telling, strict=True) if yes])
            shape = _shape(dfa, some, symbols)
            attempt = _told(dfa, shape, equations, symbols, expected, answers)
            if attempt.holds or not robust:
                attempts.append(attempt)
    return min(attempts, key=lambda trial: (not trial.holds, len(trial.shape)), default=None)


def _told(
    dfa: DFA,
    shape: str,
    equations: tuple[Constraint, ...],
    symbols: Sequence[str],
    expected: Bool[np.ndarray, " asked"],
    answers: Bool[np.ndarray, " asked"],
) -> Envelope:
    """The envelope of a shape and equations, with how the network answered."""
    text, power = ", ".join(_parts(equations, symbols)), _power(shape, equations, symbols)
    inside, outside = float(answers[expected].mean()), float(1 - answers[~expected].mean())
    sizes = len(answers), int(expected.sum())
    return Envelope(dfa, shape, equations, text, power, inside, outside, *sizes)


def _typical(words: Sequence[Word]) -> list[Word]:
    """Leaves out strange words, since a network accepts one by mistake now and then.

    A word is strange if its first symbol, a pair of neighbours or its last symbol occurs in few of
    the other words.
    """
    parts = [{("", w[0]), (w[-1], ""), *pairwise(w)} for w in words]
    times = Counter(part for cues in parts for part in cues)
    least = STRANGE * len(words)
    return [w for w, cues in zip(words, parts, strict=True) if all(times[p] > least for p in cues)]


def local(words: Sequence[Word], symbols: Sequence[str]) -> DFA:
    """The smallest strictly 2-local language that holds all words (McNaughton and Papert 1971).

    Such a language is given by its first symbols, its pairs of neighbours and its last symbols.
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
    """Counts of each symbol in each word, [words, symbols]."""
    table = [[count[symbol] for symbol in symbols] for count in map(Counter, words)]
    return np.array(table, dtype=np.int64).reshape(len(words), len(symbols))


def constraints(table: np.ndarray) -> tuple[Constraint, ...]:
    """A basis of the linear equations that all rows of counts obey, exact, in small integers.

    Args:
        table: counts, [words, symbols].
    """
    rows = np.unique(table, axis=0)
    basis = []
    for whole in _nullspace(np.concatenate([rows, -np.ones((len(rows), 1), np.int64)], axis=1)):
        if not any(whole[:-1]):
            continue
        divisor = gcd(*whole)
        sign = 1 if next(w for w in whole if w) > 0 else -1
        *weights, constant = (sign * w // divisor for w in whole)
        basis.append(Constraint(tuple(weights), constant))
    return tuple(basis)


def _nullspace(matrix: np.ndarray) -> list[list[int]]:
    """A basis of the vectors that the matrix maps to zero, exact, in whole numbers."""
    import sympy  # imported here, because it takes time

    basis = []
    for vector in sympy.Matrix(matrix.tolist()).nullspace():
        scale = sympy.ilcm(*(entry.q for entry in vector))
        basis.append([int(entry * scale) for entry in vector])
    return basis


def _common(table: np.ndarray, rng: np.random.Generator) -> tuple[Constraint, ...]:
    """The largest set of equations that all but a few rows obey.

    It is the largest of several attempts; each takes the equations of a few rows drawn at random.
    """
    size = max(FEWEST, table.shape[1] + 2)
    tried = [constraints(table[rng.permutation(len(table))[:size]]) for _ in range(20)]
    fit = [e for e in tried if _obeyed(table, e).mean() >= 1 - STRANGE]
    return max(fit, key=len, default=())


def _obeyed(table: np.ndarray, equations: Sequence[Constraint]) -> np.ndarray:
    obeyed = np.ones(len(table), dtype=bool)
    for equation in equations:
        obeyed &= table @ np.array(equation.weights) == equation.constant
    return obeyed


def _telling(
    equations: Sequence[Constraint], rejected: np.ndarray, symbols: Sequence[str]
) -> tuple[Constraint, ...]:
    """The equations that exclude rejected words, at most ``MOST_TOLD``: those that exclude most.

    Args:
        rejected: counts of rejected words of the shape, [words, symbols].
    """
    excluded = {e: int((~_obeyed(rejected, [e])).sum()) for e in equations}
    kept: list[Constraint] = []
    for equation in sorted(equations, key=lambda e: -excluded[e]):
        if excluded[equation] and len(_parts([*kept, equation], symbols)) <= MOST_TOLD:
            kept.append(equation)
    return tuple(e for e in equations if e in kept)


def _edits(word: Word, symbols: Sequence[str], rng: np.random.Generator) -> Iterator[Word]:
    """Words near a word, changed at a random place, then its symbols in a random order.

    The changes are: one symbol doubled, left out, replaced, and swapped with the one before it.
    """
    at = int(rng.integers(len(word)))
    other = symbols[int(rng.integers(len(symbols)))]
    yield (*word[:at], word[at], *word[at:])
    yield (*word[:at], *word[at + 1 :])
    yield (*word[:at], other, *word[at + 1 :])
    if at:
        yield (*word[: at - 1], word[at], word[at - 1], *word[at + 1 :])
    yield tuple(word[i] for i in rng.permutation(len(word)))


def _shape(dfa: DFA, words: Sequence[Word], symbols: Sequence[str]) -> str:
    """The shape as a text: "a+ b+" if all words are the same row of runs; "" for any shape.

    Other shapes are a regular expression, or the number of states if that is large.
    """
    if same(dfa, DFA.universal_language(set(symbols))):
        return ""
    rows = {
        tuple(s for s, t in zip(word, (*word[1:], ""), strict=True) if s != t) for word in words
    }
    if len(rows) == 1 and len(set(row := rows.pop())) == len(row):
        return " ".join(f"{symbol}+" for symbol in row)
    states = len(dfa.states)
    return regex(dfa, symbols) if states <= WRITTEN else f"(an automaton of {states} states)"


def _parts(equations: Sequence[Constraint], symbols: Sequence[str]) -> list[str]:
    """The equations as texts, with equal counts in one chain."""
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
    return equal + rest


def _power(shape: str, equations: Sequence[Constraint], symbols: Sequence[str]) -> str | None:
    """A name such as "a^n b^2n"; None unless shape and equations have this form.

    Every symbol then occurs once in the shape, one number is free, and no equation has a constant.
    """
    row = [part.removesuffix("+") for part in shape.split(" ")]
    if set(row) != set(symbols) or not all(part.endswith("+") for part in shape.split(" ")):
        return None
    if len(equations) != len(symbols) - 1 or any(e.constant for e in equations):
        return None
    (whole,) = _nullspace(np.array([e.weights for e in equations]))
    times = {s: w // gcd(*whole) for s, w in zip(symbols, whole, strict=True)}
    return " ".join(f"{s}^{'' if times[s] == 1 else times[s]}n" for s in row)
