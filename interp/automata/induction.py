"""From a network and labelled lines to the rule behind them.

The network is the teacher. Automata are learned from it, with growing tolerance for its mistakes.
Besides, the families are searched for rules that agree with it on words of the lines' own lengths,
the only lengths on which it was taught. Then the labelled lines choose between all these, by code
length.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.evidence import Leftovers, automaton_bits, exception_bits, leftovers, rule_bits
from interp.automata.extraction import Accepts, Extraction, Teacher, Word, canonical, extract, run
from interp.automata.rule_search import rule_of, rules_near
from interp.automata.rules import Rule

TOLERANCES = (0.002, 0.01, 0.03)
"""Shares of the network's verdicts that an automaton may leave unexplained, tried in this order."""
LIKE_NOISE = 0.01
"""If the corrected p is below this, what the exceptions share is no accident."""
TELLING = 0.25
"""A rule names a symbol only if replacing it turns the verdict more often than this share of how
often the most telling symbol does."""
ENOUGH = 20
"""So many exceptions are enough to see what they share."""


@dataclass(frozen=True)
class Found:
    """A hypothesis about the rule, and the evidence for it.

    Attributes:
        dfa: its automaton, minimal and complete; states are numbered breadth first.
        rule: the same in words, if a family has it; else None.
        way: how it was found: "automaton" (learned for words of all lengths), "families" (agrees
            with the network at the lines' own lengths), or the name of a rival method.
        agrees: share of the words asked on which it agrees with the network; NaN if there was no
            network.
        wrong: how many lines contradict it.
        lines: how many lines there are.
        bits: length of the two-part code: the rule, then its exceptions.
        leftovers: what the contradicting lines have in common.
    """

    dfa: DFA
    rule: Rule | None
    way: str
    agrees: float
    wrong: int
    lines: int
    bits: float
    leftovers: Leftovers

    @property
    def like_noise(self) -> bool:
        """There is no exception; or there are enough to see a pattern in them, and none shows."""
        return self.wrong == 0 or (self.wrong >= ENOUGH and self.leftovers.p >= LIKE_NOISE)


@dataclass(frozen=True)
class Induction:
    """What was found, and what was looked at on the way.

    Attributes:
        found: the hypotheses, shortest code first; empty if neither an automaton nor a rule fits.
        learned: the last automaton learned, complete or not.
        teacher: the network, with all words that it judged.
        asked: the words on which hypotheses are compared with the network.
        constant: bits of the code that knows no rule and lists the lines of the rarer label as
            exceptions.
    """

    found: tuple[Found, ...]
    learned: Extraction
    teacher: Teacher
    asked: tuple[Word, ...]
    constant: float


@dataclass(frozen=True)
class Search:
    """How hard to look.

    Attributes:
        words: the most words that hypotheses are compared on; up to a quarter of these are lines.
        max_states: the most states of an automaton.
        max_seconds: the most seconds for learning all automata.
        seed: of the words.
    """

    words: int = 2000
    max_states: int = 30
    max_seconds: float = 20.0
    seed: int = 0


def induce(
    accepts: Accepts,
    symbols: Sequence[str],
    lines: Sequence[Word],
    labels: Bool[np.ndarray, " lines"],
    search: Search,
) -> Induction:
    """Learns automata, seeks rules, and lets the lines choose.

    Args:
        accepts: the network's verdicts on a batch of words.
        symbols: the alphabet.
        lines: labelled words, none of them empty. They are lines on which the network was trained
            or chosen, never lines on which the rule is judged afterwards.
        labels: of the lines; True for the accepted ones.
        search: how hard to look.
    """
    teacher = Teacher(accepts)
    asked = words_near(lines, symbols, search)
    verdicts = teacher(asked)
    until = time.monotonic() + search.max_seconds
    hypotheses: list[tuple[DFA, Rule | None, str]] = []
    for tolerance in TOLERANCES:
        left = until - time.monotonic()
        if hypotheses and left <= 0:
            break
        learned = extract(teacher, symbols, asked, search.max_states, left, tolerance, empty=False)
        if learned.complete and all(learned.dfa != dfa for dfa, _, _ in hypotheses):
            hypotheses.append(
                (learned.dfa, rule_of(learned.dfa, symbols, empty=False), "automaton")
            )
    most = int(TOLERANCES[-1] * len(asked))
    told = telling(teacher, asked, symbols)
    for near, _ in rules_near(asked, verdicts, symbols, told, most):
        dfa = near.dfa.minify()
        if all(dfa != other for other, _, _ in hypotheses):
            hypotheses.append((dfa, near, "families"))
    found = [
        weighed(dfa, symbols, lines, labels, rule, way, float((run(dfa, asked) == verdicts).mean()))
        for dfa, rule, way in hypotheses
    ]
    found.sort(key=lambda one: one.bits)
    return Induction(tuple(found), learned, teacher, tuple(asked), constant_bits(labels))


def constant_bits(labels: Bool[np.ndarray, " lines"]) -> float:
    """Bits of the code that knows no rule and lists the lines of the rarer label as exceptions."""
    return exception_bits(len(labels), int(min(labels.sum(), (~labels).sum())))


def weighed(
    dfa: DFA,
    symbols: Sequence[str],
    lines: Sequence[Word],
    labels: Bool[np.ndarray, " lines"],
    rule: Rule | None,
    way: str,
    agrees: float = float("nan"),
) -> Found:
    """Weighs an automaton by the lines.

    If it has a rule in words, the code writes down this rule instead of the automaton's table.

    Args:
        rule: the automaton in words, or None.
        way, agrees: as in ``Found``.
    """
    dfa = dfa.minify()
    answers = run(dfa, lines)
    wrong = int((answers != labels).sum())
    written = automaton_bits(dfa, symbols) if rule is None else rule_bits(rule, symbols)
    bits = written + exception_bits(len(lines), wrong)
    left = leftovers(lines, labels, answers, symbols)
    return Found(canonical(dfa, symbols), rule, way, agrees, wrong, len(lines), bits, left)


def words_near(lines: Sequence[Word], symbols: Sequence[str], search: Search) -> list[Word]:
    """Words of the lines' own lengths, on which hypotheses are compared with the network.

    They are, a quarter each: lines, lines with one symbol replaced, random symbols, and random runs
    of equal symbols. Equal words are kept once.
    """
    rng = np.random.default_rng([search.seed, 0xD15C])
    count = search.words // 4
    chosen = [lines[i] for i in rng.permutation(len(lines))[:count]]
    words = list(chosen)
    for line in (chosen[i] for i in rng.integers(len(chosen), size=count)):
        at = int(rng.integers(len(line)))
        words.append((*line[:at], symbols[int(rng.integers(len(symbols)))], *line[at + 1 :]))
    lengths = [len(lines[i]) for i in rng.integers(len(lines), size=2 * count)]
    for index, length in enumerate(lengths):
        run_of = np.arange(length)  # each symbol is drawn by itself, or in up to four runs
        if index % 2:
            run_of = np.searchsorted(np.sort(rng.integers(length, size=3)), run_of, side="right")
        drawn = rng.integers(len(symbols), size=max(length, 4))[run_of]
        words.append(tuple(symbols[i] for i in drawn))
    return list(dict.fromkeys(words))


def telling(
    teacher: Teacher, words: Sequence[Word], symbols: Sequence[str], most: int = 9
) -> list[str]:
    """The symbols on which the network's verdict depends, in the order of the alphabet.

    They are those that turn the verdict most often when another symbol takes their place, at most
    ``most`` of them.
    """
    rng = np.random.default_rng(0)
    verdicts = teacher(words)
    # As many accepted as rejected words: a rare verdict may depend on symbols of its own.
    sides = [rng.permutation(np.flatnonzero(verdicts == side)) for side in (True, False)]
    fewest = max(1, min(map(len, sides)))
    places: dict[str, list[tuple[Word, int]]] = {symbol: [] for symbol in symbols}
    for index in rng.permutation(np.concatenate([side[:fewest] for side in sides])):
        word = words[index]
        for at in rng.permutation(len(word))[:4].tolist():
            if len(places[word[at]]) < 100:
                places[word[at]].append((word, at))
    turned = {}
    for symbol, where in places.items():
        others = [s for s in symbols if s != symbol]
        if not where or not others:
            continue
        changed = [
            (*word[:at], others[int(rng.integers(len(others)))], *word[at + 1 :])
            for word, at in where
        ]
        turned[symbol] = (teacher(changed) != teacher([word for word, _ in where])).mean()
    least = TELLING * max(turned.values(), default=0.0)
    largest = sorted(turned, key=lambda symbol: -turned[symbol])[:most]
    largest = [symbol for symbol in largest if turned[symbol] > least]
    return [symbol for symbol in symbols if symbol in largest]
