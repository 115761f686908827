"""Passive learning: automata from labelled words alone, by merging states of their prefix tree.

States are merged as long as no label speaks against it. RPNI (Oncina and Garcia 1992) makes the
first merge that it may, EDSM (Lang, Pearlmutter and Price 1998) the one that most labels speak for.
Both are AALpy's. Which merge is the first hangs on the order of the words, and so RPNI's automaton
is a matter of luck: it gets eight orders, and the smallest automaton counts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from aalpy.learning_algs import run_GSM
from aalpy.learning_algs.general_passive.GsmNode import GsmNode, unknown_output
from aalpy.learning_algs.general_passive.Instrumentation import Instrumentation
from aalpy.learning_algs.general_passive.ScoreFunctionsGSM import ScoreCalculation
from aalpy.utils.HelperFunctions import dfa_from_moore
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.equivalence import Word
from interp.automata.evidence import automaton_bits
from interp.automata.extraction import as_dfa

PASSIVE = 25_000
"""The most symbols, over all words, that are learned from. Where no small automaton fits, the work
grows with their square."""
ORDERS, TRIED = 8, 3
"""RPNI gets the words in so many orders; or in so few, if with each it needs too many states."""
FIRST = 1500
"""EDSM begins with about so many symbols."""
UNBOUNDED = 10**9
MERGES = 500_000
"""EDSM tries to merge so many pairs of states, which takes some seconds, and then none more."""

Finder = Callable[..., DFA | None]
"""``rpni`` or ``edsm``."""


def rpni(
    words: Sequence[Word],
    labels: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
    most: int = UNBOUNDED,
) -> DFA | None:
    """The smallest automaton of RPNI over eight orders of the words; over three, if none of these
    has few enough states.

    Args:
        words: labelled words; one that has both labels equally often is left out, and of very many
            some are drawn at random.
        labels: labels of the words.
        symbols: the alphabet.
        most: the most states.

    Returns:
        The automaton; None if each has too many states.
    """
    data = drawn(words, labels, PASSIVE)
    rng = np.random.default_rng(1)
    automata = list[DFA]()
    for order in range(ORDERS):
        if order == TRIED and not automata:
            break
        with suppress(_SpentError):
            first = {"consider_only_min_blue": True, "node_order": GsmNode.get_prefix_length}
            automata.append(_merged(data, symbols, most, **first))
        data = [data[i] for i in rng.permutation(len(data)).tolist()]
    return min(automata, key=lambda dfa: _size(dfa, symbols), default=None)


def edsm(
    words: Sequence[Word],
    labels: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
    most: int = UNBOUNDED,
    merges: int = MERGES,
) -> DFA | None:
    """The automaton of EDSM.

    All states are candidates at any time, so it takes very long where no small automaton fits.
    Therefore it learns from few words first, then from twice as many, until it has learned from
    all, or has tried as many merges as it may.

    Args:
        words, labels, symbols, most: see ``rpni``.
        merges: the most merges that are tried; those of the first few words do not count.

    Returns:
        The automaton of the most words; None if that of the first few has too many states.
    """
    room, score, learned = FIRST, _Evidence(UNBOUNDED), None
    with suppress(_SpentError):
        while learned is None or room < PASSIVE:
            if learned is not None:
                room = min(PASSIVE, 2 * room)
            learned = _merged(drawn(words, labels, room), symbols, most, score_calc=score)
            score.left = min(score.left, merges)
    return learned


def _size(dfa: DFA, symbols: Sequence[str]) -> tuple[int, float]:
    return len(dfa.states), automaton_bits(dfa, symbols)


class _SpentError(Exception):
    """More states or merges would be needed than may be."""


class _Evidence(ScoreCalculation):  # type: ignore[misc]  # AALpy is untyped
    """EDSM's score of a merge: the number of labels that it brings together."""

    def __init__(self, left: int) -> None:
        self.left = left

    def local_compatibility(self, a: GsmNode, b: GsmNode) -> bool:
        """True: what contradicts a label is refused before this is asked. It counts the work."""
        self.left -= 1
        if self.left < 0:
            raise _SpentError
        return True

    def score_function(self, part: Mapping[GsmNode, GsmNode]) -> int:
        """The labels that fall together, over all states that the merge implies."""
        merged = [new for old, new in part.items() if old.get_prefix_output() is not unknown_output]
        return len(merged) - len(set(merged))


class _Limit(Instrumentation):  # type: ignore[misc]  # AALpy is untyped
    """Ends a run that needs too many states."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.left = most

    def log_promote(self, node: GsmNode) -> None:
        self.left -= 1
        if self.left < 0:
            raise _SpentError


def _merged(
    data: Sequence[tuple[Word, bool]], symbols: Sequence[str], most: int, **how: Any
) -> DFA:
    """The automaton of AALpy's state merging, minimal and complete.

    Raises:
        _SpentError: it needs too many states or merges.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # missing transitions lead to a dead state
        moore = run_GSM(data, data_format="labeled_sequences", instrumentation=_Limit(most), **how)
    return as_dfa(dfa_from_moore(moore), list(symbols)).minify()


def drawn(
    words: Sequence[Word], labels: Bool[np.ndarray, " words"], room: int
) -> list[tuple[Word, bool]]:
    """Different words in a random order, each with the label that it has more often.

    Args:
        room: the most symbols over all words.
    """
    votes: Counter[Word] = Counter()
    for word, label in zip(words, labels.tolist(), strict=True):
        votes[word] += 1 if label else -1
    decided = [word for word in votes if votes[word]]
    data = list[tuple[Word, bool]]()
    for row in np.random.default_rng(0).permutation(len(decided)).tolist():
        room -= len(decided[row])
        if room < 0 and data:
            break
        data.append((decided[row], votes[decided[row]] > 0))
    return data
