"""Small automata that fit labelled words, by simulated annealing (Kirkpatrick et al. 1983).

An arrow at a time is turned to another state. A turn that leaves fewer exceptions is kept, and one
that leaves more with a probability that falls. State merging needs words that show each state on
its own; here all words speak for each arrow, so long words are as good as short ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool, Int

from interp.automata.equivalence import Word
from interp.automata.evidence import automaton_bits, exception_bits
from interp.automata.extraction import canonical
from interp.automata.passive.merging import PASSIVE, drawn

SIZES = range(2, 9)
"""States of the automata that are tried."""
STARTS = 3
"""Automata drawn at random with which each size begins, beside the given one."""
TURNS = 6000
"""Arrows that are turned from each start."""
HOT, COLD = 20.0, 1.0
"""So many bits longer is a code that is kept with probability 1/e, at first and at last."""


def annealed(
    words: Sequence[Word], labels: Bool[np.ndarray, " words"], symbols: Sequence[str], start: DFA
) -> DFA:
    """The automaton with the shortest code; it is minimal and complete.

    Args:
        words: at least one; of very many some are drawn at random.
        labels: labels of the words.
        symbols: the alphabet.
        start: an automaton to begin with, where it has not too many states.
    """
    search = _Annealing.of(words, labels, symbols)
    best, table = _table(start, symbols)
    shortest = np.inf
    for size in SIZES:
        rng = np.random.default_rng(size)
        starts = [rng.integers(size, size=(size, len(symbols))) for _ in range(STARTS)]
        if len(table) <= size:
            starts.append(np.vstack([table, starts[0][len(table) :]]))
        for delta in starts:
            delta, final, wrong = search.best(delta, rng)
            dfa = _automaton(delta, final, symbols)
            bits = automaton_bits(dfa, symbols) + search.bits[wrong]
            if bits < shortest:
                best, shortest = dfa, bits
            if wrong == 0:  # a larger one is longer
                return best
    return best


def turned(
    words: Sequence[Word], labels: Bool[np.ndarray, " words"], symbols: Sequence[str], dfa: DFA
) -> list[DFA]:
    """The automata with one arrow elsewhere that are wrong on no more words.

    The words leave such an arrow open: few of them go along it, or none. Which states accept
    follows from the words.

    Args:
        words, labels, symbols: see ``annealed``.
        dfa: the automaton.
    """
    search = _Annealing.of(words, labels, symbols)
    _, arrows = _table(dfa, symbols)
    delta = np.array(arrows)
    _, most = search.judged(delta)
    open_: list[DFA] = []
    for state, letter, target in np.ndindex(*delta.shape, len(delta)):
        if delta[state, letter] == target:
            continue
        other = delta.copy()
        other[state, letter] = target
        final, wrong = search.judged(other)
        if wrong <= most:
            open_.append(_automaton(other, final, symbols))
    return open_


class _Annealing:
    """Words by their letters, [positions, words], with the labels that an automaton should give.

    The letter behind the end of a word is one more than all others, and moves nothing.
    """

    def __init__(
        self, letters: Int[np.ndarray, "places words"], labels: Bool[np.ndarray, " words"]
    ) -> None:
        self.letters, self.labels = letters, labels
        count = len(labels)
        self.bits = np.array([exception_bits(count, wrong) for wrong in range(count + 1)])

    @classmethod
    def of(
        cls, words: Sequence[Word], labels: Bool[np.ndarray, " words"], symbols: Sequence[str]
    ) -> _Annealing:
        """The search on words as they are; on some of very many."""
        data = drawn(words, labels, PASSIVE)
        number = {symbol: index for index, symbol in enumerate(symbols)}
        longest = max(len(word) for word, _ in data)
        letters = np.full((longest, len(data)), len(symbols), dtype=np.intp)
        for column, (word, _) in enumerate(data):
            letters[: len(word), column] = [number[symbol] for symbol in word]
        return cls(letters, np.array([label for _, label in data]))

    def best(
        self, delta: Int[np.ndarray, "states letters"], rng: np.random.Generator
    ) -> tuple[Int[np.ndarray, "states letters"], Bool[np.ndarray, " states"], int]:
        """The best arrows on the way from a start, with the accepting states and the exceptions."""
        delta = delta.copy()
        size, width = delta.shape
        final, wrong = self.judged(delta)
        best = delta.copy(), final, wrong
        for turn in range(TURNS):
            state, letter, target = (int(rng.integers(n)) for n in (size, width, size))
            before, delta[state, letter] = delta[state, letter], target
            final, now = self.judged(delta)
            heat = HOT * (COLD / HOT) ** (turn / TURNS)
            longer = self.bits[now] - self.bits[wrong]
            if longer <= 0 or rng.random() < np.exp(-longer / heat):
                wrong = now
            else:
                delta[state, letter] = before
            if now < best[2]:
                best = delta.copy(), final, now
            if now == 0:
                break
        return best

    def judged(
        self, delta: Int[np.ndarray, "states letters"]
    ) -> tuple[Bool[np.ndarray, " states"], int]:
        """Which states accept: those in which more accepted words end; and the exceptions."""
        size, width = delta.shape
        rows = (width + 1) * np.column_stack([delta, np.arange(size)]).ravel()
        at = np.zeros(len(self.labels), dtype=np.intp)
        for letter in self.letters:
            at = rows[at + letter]
        at //= width + 1
        yes = np.bincount(at[self.labels], minlength=size)
        no = np.bincount(at[~self.labels], minlength=size)
        return yes > no, int(np.minimum(yes, no).sum())


def _table(dfa: DFA, symbols: Sequence[str]) -> tuple[DFA, list[list[int]]]:
    """The minimal automaton, states by number, and its arrows: [states][symbols]."""
    dfa = canonical(dfa.minify(), symbols)
    return dfa, [[dfa.transitions[q][s] for s in symbols] for q in sorted(dfa.states)]


def _automaton(
    delta: Int[np.ndarray, "states letters"],
    final: Bool[np.ndarray, " states"],
    symbols: Sequence[str],
) -> DFA:
    dfa = DFA(
        states=set(range(len(delta))),
        input_symbols=set(symbols),
        transitions={
            q: dict(zip(symbols, row, strict=True)) for q, row in enumerate(delta.tolist())
        },
        initial_state=0,
        final_states=set(np.flatnonzero(final).tolist()),
    )
    return canonical(dfa.minify(), symbols)
