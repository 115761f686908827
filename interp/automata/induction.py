"""From a network and labelled lines to the rule behind them.

The network is the teacher. Automata are learned from it, with falling tolerance for its mistakes.
The families are searched for rules that agree with it on words of the lines' own lengths, the only
lengths on which it was taught. Where lines are structured, an automaton is learned from its
verdicts on words like the lines. Then the labelled lines choose between all these, by code length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.equivalence import Word
from interp.automata.evidence import (
    Leftovers,
    automaton_bits,
    constant_bits,
    exception_bits,
    leftovers,
    rule_bits,
)
from interp.automata.extraction import Accepts, Extraction, Teacher, canonical, extract, run
from interp.automata.passive.merging import Finder, edsm, rpni
from interp.automata.rule_search import rule_of, rules_near
from interp.automata.rules import Rule
from interp.automata.words_near import telling, words_like, words_near

TOLERANCES = (0.03, 0.01, 0.002)
"""Shares of the network's verdicts that an automaton may leave unexplained, tried in this order.
The smallest automaton comes first, and takes the fewest words."""
LIKE_NOISE = 0.01
"""If the corrected p is below this, what the exceptions share is no accident."""
ENOUGH = 20
"""So many exceptions are enough to see what they share."""
LIKE_MERGES = 30_000
"""EDSM tries to merge so many pairs of states where it learns from words like the lines."""
DOUBTED = 500
"""The most contradicting lines, for each hypothesis, that the network is asked about."""
ROUNDS = 3
"""So many times at most an automaton that was learned from words like the lines is mended."""
HOPELESS = 0.75
"""It is not mended if it agrees with the network on fewer of the words like the lines."""
WEIGHTS = (0.5, 1.0, 2.0)
"""The bits of a rule count so many times, to see whether the choice hangs on their scale."""


@dataclass(frozen=True)
class Found:
    """A hypothesis about the rule, and the evidence for it.

    Attributes:
        dfa: its automaton, minimal and complete; states are numbered breadth first.
        rule: the same in words, if a family has it; else None.
        way: its source: "automaton" (learned for words of all lengths), "unfinished" (so too,
            but the budget ended before all its tests), "families" (agrees with the network at the
            lines' own lengths), "lines" (learned from words like the lines), or the name of a rival
            method.
        agrees: share of the words asked on which it agrees with the network, many of which it was
            fitted to; NaN if there was no network.
        wrong: number of lines that contradict it.
        lines: number of lines.
        bits: length of the two-part code: the rule, then its exceptions.
        written: bits of the rule alone.
        leftovers: the most telling feature of the contradicting lines.
        mistaken: the least number of these lines on which the network agrees with the label: they
            are no noise. 0 if there was no network.
    """

    dfa: DFA
    rule: Rule | None
    way: str
    agrees: float
    wrong: int
    lines: int
    bits: float
    written: float
    leftovers: Leftovers
    mistaken: int = 0

    @property
    def knows(self) -> bool:
        """It agrees with the network on nearly all words, and wherever line and network agree."""
        return self.mistaken == 0 and self.agrees >= 1 - TOLERANCES[-1]

    def weighed(self, times: float) -> float:
        """The code length if the bits of the rule count so many times."""
        return self.bits + (times - 1) * self.written


@dataclass(frozen=True)
class Induction:
    """The hypotheses of an induction, and the evidence gathered on the way.

    Attributes:
        found: the hypotheses, shortest code first, but for the outdone, which come last; empty if
            neither an automaton nor a rule fits.
        learned: the learned automaton that agrees best with the network.
        strict: the automaton that was learned without tolerance, if one without wording already
            explained all lines; else None. A network that counts needs more states the less may be
            left unexplained.
        teacher: the network, with all words that it judged.
        asked: the words on which hypotheses are compared with the network.
        constant: bits of the code that knows no rule and lists the lines of the rarer label as
            exceptions.
    """

    found: tuple[Found, ...]
    learned: Extraction
    strict: Extraction | None
    teacher: Teacher
    asked: tuple[Word, ...]
    constant: float

    @property
    def standing(self) -> list[Found]:
        """The hypotheses that are not outdone.

        An exception is noise only where the network disagrees with the label. Where it does not,
        the hypothesis is wrong, and is outdone by one that the network never contradicts so.
        """
        exact = any(one.knows for one in self.found)
        return [one for one in self.found if not (exact and one.mistaken)]

    @property
    def sensitive(self) -> dict[str, bool]:
        """Does another hypothesis win if the bits of rules count half, or twice?"""
        best = {
            times: min(self.standing, key=lambda one: one.weighed(times), default=None)
            for times in WEIGHTS
        }
        return {f"{times:g}": best[times] is not best[1.0] for times in WEIGHTS if times != 1}


@dataclass(frozen=True)
class Search:
    """The effort of an induction.

    Attributes:
        words: the most words that hypotheses are compared on; up to a quarter of these are lines.
        max_states: the most states of an automaton.
        queries: the most words that the network is asked while automata are learned. At most a
            quarter of them are the words that hypotheses are compared on, and half of them are left
            for words like the lines. To see which symbols a rule may name takes up to 100 words of
            each symbol besides.
        seed: seed of the words.
    """

    words: int = 2000
    max_states: int = 30
    queries: int = 20_000
    seed: int = 0

    @property
    def compared(self) -> int:
        """The most words that hypotheses are compared on, within the budget."""
        return min(self.words, self.queries // 4)


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
        labels: labels of the lines; True for the accepted ones.
        search: the effort.
    """
    teacher = Teacher(accepts)
    tests = words_near(lines, symbols, search.compared, search.seed)
    verdicts = teacher(tests)
    hypotheses: list[Found] = []

    most_known = search.queries

    def add(dfa: DFA, rule: Rule | None, way: str, agrees: float) -> None:
        if all(dfa != one.dfa for one in hypotheses):
            one = weighed(dfa, symbols, lines, labels, rule, way, agrees)
            hypotheses.append(_doubted(one, teacher, lines, labels, most_known))

    def exact() -> bool:
        """Is the network's rule among them?"""
        return any(one.knows for one in hypotheses)

    tried: list[Extraction] = []
    for tolerance in TOLERANCES:
        left = search.queries // 2 - len(teacher.known)
        if exact() or (tried and left <= 0):
            break
        learned = extract(teacher, symbols, tests, search.max_states, left, tolerance, empty=False)
        tried.append(learned)
        agrees = float((run(learned.dfa, tests) == verdicts).mean())
        if learned.complete or (learned.ended == "queries" and agrees >= 1 - TOLERANCES[0]):
            way = "automaton" if learned.complete else "unfinished"
            add(learned.dfa, rule_of(learned.dfa, symbols, empty=False), way, agrees)
    strict: Extraction | None = None
    left = search.queries // 2 - len(teacher.known)
    if exact() and left > 0 and any(one.rule is None for one in hypotheses):
        strict = extract(teacher, symbols, tests, search.max_states, left, 0.0, empty=False)
    most = int(TOLERANCES[0] * len(tests))
    before = len(teacher.known)
    terms = telling(teacher, tests, symbols)
    room = search.queries - before  # what ``telling`` asks is not for learning
    most_known = len(teacher.known) + room
    for near, _ in rules_near(tests, verdicts, symbols, terms, most):
        dfa = near.dfa.minify()
        add(dfa, near, "families", float((run(dfa, tests) == verdicts).mean()))
    if not exact():
        like = words_like(lines, search.compared, search.seed)
        votes = teacher(like)
        for near, wrong in rules_near(like, votes, symbols, terms, int(TOLERANCES[0] * len(like))):
            add(near.dfa.minify(), near, "lines", 1 - wrong / len(like))
        if all(one.wrong for one in hypotheses):
            for dfa, agrees in _learned_like(lines, symbols, teacher, search, room):
                if agrees >= 1 - TOLERANCES[0]:
                    add(dfa, rule_of(dfa, symbols, empty=False), "lines", agrees)
    best = max(tried, key=lambda one: (one.complete, one.agrees))
    hypotheses.sort(key=lambda one: one.bits)
    made = Induction(tuple(hypotheses), best, strict, teacher, tuple(tests), constant_bits(labels))
    standing = made.standing
    outdone = [one for one in hypotheses if one not in standing]
    return replace(made, found=(*standing, *outdone))


def _doubted(
    one: Found,
    teacher: Teacher,
    lines: Sequence[Word],
    labels: Bool[np.ndarray, " lines"],
    most: int,
) -> Found:
    """A hypothesis with the number of lines on which network and label agree that it is wrong.

    At most ``DOUBTED`` lines are asked.

    Args:
        most: so many words may be known to the teacher afterwards; lines beyond are not asked.
    """
    room = max(0, min(DOUBTED, most - len(teacher.known)))
    rows = np.flatnonzero(run(one.dfa, lines) != labels)[:room]
    answers = teacher([lines[row] for row in rows.tolist()])
    return replace(one, mistaken=int((answers == labels[rows]).sum()))


def _learned_like(
    lines: Sequence[Word], symbols: Sequence[str], teacher: Teacher, search: Search, room: int
) -> list[tuple[DFA, float]]:
    """Automata that are learned from the network's verdicts on lines and words like them alone.

    RPNI and EDSM learn from lines first. Both are tested on fresh words like them, and the better
    one goes on with those on which the network disagrees with it. This ends when these are hardly
    any or too many, when too many states are needed, after ``ROUNDS``, or when the budget of words
    is spent.

    Args:
        room: so many words may still be asked.

    Returns:
        The automata, each with the share of its test on which it agrees with the network.
    """
    order = np.random.default_rng(search.seed).permutation(len(lines))
    words = [lines[i] for i in order[: search.compared]]
    automata, most = list[tuple[DFA, float]](), len(teacher.known) + room
    finders: list[Finder] = [rpni, partial(edsm, merges=LIKE_MERGES)]
    for number in range(1, ROUNDS + 1):
        data = words, teacher(words), symbols, search.max_states
        small = {finder: dfa for finder in finders if (dfa := finder(*data)) is not None}
        fresh = words_like(lines, search.compared, search.seed + number)
        answers = teacher(fresh)
        agree = {of: float((run(dfa, fresh) == answers).mean()) for of, dfa in small.items()}
        automata += [(small[of], agree[of]) for of in small]
        spent = len(teacher.known) + search.compared > most
        better = max(agree.values(), default=0.0)
        if spent or better < HOPELESS or better >= 1 - TOLERANCES[-1]:
            break
        finders = [max(agree, key=agree.__getitem__)]
        wrong = run(small[finders[0]], fresh) != answers
        words = list(dict.fromkeys([*words, *(fresh[i] for i in np.flatnonzero(wrong))]))
    return automata


def weighed(
    dfa: DFA,
    symbols: Sequence[str],
    lines: Sequence[Word],
    labels: Bool[np.ndarray, " lines"],
    rule: Rule | None,
    way: str,
    agrees: float = float("nan"),
    look: bool = True,
) -> Found:
    """Weighs an automaton by the lines.

    If it has a rule in words, the code writes down this rule or the automaton's table, whichever is
    shorter.

    Args:
        rule: the automaton in words, or None.
        way, agrees: see ``Found``.
        look: whether to look for what the exceptions share, which takes the most time.
    """
    dfa = dfa.minify()
    answers = run(dfa, lines)
    wrong = int((answers != labels).sum())
    written = automaton_bits(dfa, symbols)
    if rule is not None:
        written = min(written, rule_bits(rule, symbols))
    bits = written + exception_bits(len(lines), wrong)
    left = leftovers(lines, labels, answers if look else labels, symbols)
    return Found(canonical(dfa, symbols), rule, way, agrees, wrong, len(lines), bits, written, left)
