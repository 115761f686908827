"""The rule behind a network's verdicts: learned from them, chosen by lines, tested on other words.

Nothing here knows what the network is. It is asked words, and the lines bear labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from automata.fa.dfa import DFA

from analyses.options.rule import Discovery
from analyses.questions.rule.rule_evidence import (
    Lines,
    by_length,
    counted,
    described,
    doubt,
    envelope_fields,
    on_held_out,
    rebuilt,
    status,
)
from analyses.words import ANALYSIS_SEED
from interp.automata.counting import counts_on, growth
from interp.automata.envelope import Constraint, envelope
from interp.automata.equivalence import Word, long_ways
from interp.automata.extraction import Accepts, Teacher, canonical, extract
from interp.automata.extraction import run as verdicts_of
from interp.automata.induction import Induction, Search, induce
from interp.automata.near_misses import Claim, near_misses
from interp.automata.words_near import words_like, words_near
from interp.statistics import wilson

WAYS = 500
"""The most words longer than the lines that are asked where an automaton may count."""
FRESH = 1000
"""The number added to the seed for words that test an automaton which was learned from others."""

TIMES = (1, 2, 4)
"""Near misses are as long as the longest words of the search, and so many times as long."""


def learned(
    accepts: Accepts,
    symbols: Sequence[str],
    lines: Lines,
    held: Lines,
    options: Discovery,
    room: int | None = None,
) -> tuple[dict[str, Any], DFA]:
    """All that is said of a network's rule, JSON-able, and its automaton.

    Args:
        accepts: the network's verdicts on a batch of words.
        symbols: the alphabet.
        lines: they choose between the hypotheses.
        held: lines on which the rule is judged.
        options: the bounds of the search.
        room: the length of the longest word that the network can read; None if any will do.
    """
    search = Search(options.words, options.max_states, options.queries, options.seed)
    induction = induce(accepts, symbols, lines.words, lines.labels, search)
    teacher, best = induction.teacher, next(iter(induction.found), None)
    dfa = best.dfa if best else canonical(induction.learned.dfa, symbols)
    queries, longest = len(teacher.known), max(map(len, lines.words))
    way = best.way if best else "automaton"
    fresh = _fresh_words(teacher, lines.words, held.words, symbols, options, way)
    others = _other_lengths(held.words, symbols, options, room)
    about = described(dfa, best, symbols)
    growing = _grown(dfa, induction, symbols, longest, about["rule"])
    longer = [word for word in others if len(word) > longest]
    if growing["counting"]:
        longer = teacher.unknown([*longer, *_beyond(dfa, symbols, longest, room)])
    about |= _agreement(dfa, teacher, fresh, "", "fresh")
    about |= on_held_out(dfa, held) | by_length(dfa, teacher, held)
    about |= _agreement(dfa, teacher, longer, "_longer", "longer")
    about |= {
        "complete": best is not None,
        "finished": _finished(induction),
        "w_method": induction.learned.whole,
        "sensitive": induction.sensitive,
        **growing,
        "agreement_other_lengths": float((verdicts_of(dfa, others) == teacher(others)).mean())
        if others
        else None,
        "bits_without": induction.constant,
        "queries": queries,
    }
    about |= {"status": status(about), "doubt": doubt(about)}
    if about["status"] == "none" or about["rule"] is None:
        about |= _beyond_regular(about, induction, symbols, lines, options)
    return about, dfa


def claim_of(about: dict[str, Any], dfa: DFA, symbols: tuple[str, ...]) -> Claim:
    """The rule that is told: the automaton; if the network counts, its shape and equations."""
    if about["status"] != "counts":
        return Claim(dfa, symbols)
    fields = about["envelope"]
    equations = (Constraint(tuple(weights), last) for *weights, last in fields["equations"])
    return Claim(rebuilt(fields["dfa"], symbols), symbols, tuple(equations))


def shared(right: int, count: int) -> dict[str, Any]:
    """A number of words, and the share on which rule and network agree, with its interval."""
    low, high = wilson(right, count)
    return {"words": count, "agree": right / count, "low": low, "high": high}


def near_rule(
    accepts: Accepts,
    about: dict[str, Any],
    claim: Claim,
    window: int,
    room: int | None,
    seed: int,
) -> list[dict[str, Any]]:
    """The network's answers to words of its rule, and to words one edit away; none where no rule is
    told. The words are as long as those of a window, and longer.

    Args:
        window: the longest words by which the rule was found.
        room: the length of the longest word that the network can read; None if any will do.
    """
    if about["status"] not in ("rule", "exceptions", "counts"):
        return []
    lengths = sorted({min(times * window, room or times * window) for times in TIMES})
    rows = near_misses(accepts, claim, lengths, seed).to_dict("records")
    return [row | shared(row["agree"], row["words"]) for row in rows]


def _grown(
    dfa: DFA, induction: Induction, symbols: Sequence[str], longest: int, rule: str | None
) -> dict[str, Any]:
    """The growth of the states with the words: of the automaton, or of the one without tolerance,
    if only that one grows to the end. The unexplained rest may be all that is beyond a count."""
    shown, strict = dfa, induction.strict
    if strict and strict.complete and not counts_on(dfa, symbols, longest):
        shown = strict.dfa if counts_on(strict.dfa, symbols, longest) else dfa
    states = {str(length): str(n) for length, n in growth(shown, symbols, longest).items()}
    counting = rule is None and counts_on(shown, symbols, longest)
    return {"growth": states, "growth_of": len(shown.states), "counting": counting}


def _finished(induction: Induction) -> bool:
    """Did learning end by itself, and not because the words of the budget were asked?"""
    if induction.found:
        return induction.found[0].way != "unfinished"
    return induction.learned.ended != "queries"


def _fresh_words(
    teacher: Teacher,
    lines: Sequence[Word],
    held: Sequence[Word],
    symbols: Sequence[str],
    options: Discovery,
    way: str,
) -> list[Word]:
    """Words that the network was not asked yet: held-out lines, and words of the kinds on which
    hypotheses were compared."""
    seed = options.seed + FRESH
    if way == "lines":
        return teacher.unknown([*words_like(lines, options.words, seed), *held])
    return teacher.unknown([*words_near(lines, symbols, options.words, seed), *held])


def _agreement(
    dfa: DFA, teacher: Teacher, words: Sequence[Word], of: str, count: str
) -> dict[str, Any]:
    """The share of words on which automaton and network agree, with Wilson's interval; None where
    there is no word. The same comes for the words that the network accepts and rejects, apart.

    Args:
        of, count: the names of the share and of the number of words.
    """
    answers = teacher(words)
    agree = verdicts_of(dfa, words) == answers
    share, interval = _share(agree)
    parts = {"accepted": agree[answers], "rejected": agree[~answers]}
    return {
        f"agreement{of}": share,
        f"agreement{of}_interval": interval,
        f"agreement{of}_sides": {
            side: dict(zip(("agreement", "interval"), _share(part), strict=True))
            | {"words": len(part)}
            for side, part in parts.items()
        },
        count: len(words),
    }


def _share(agree: np.ndarray) -> tuple[float | None, tuple[float, float] | None]:
    """The share that is True, and Wilson's interval; None where there is nothing."""
    if not len(agree):
        return None, None
    return float(agree.mean()), wilson(int(agree.sum()), len(agree))


def _other_lengths(
    words: Sequence[Word], symbols: Sequence[str], options: Discovery, room: int | None
) -> list[Word]:
    """Words of lengths that no line has: shorter ones, and ones up to half as long again.

    Args:
        room: the length of the longest word that the network can read; None if any will do.
    """
    seen = {len(word) for word in words}
    rng = np.random.default_rng([ANALYSIS_SEED, options.seed, 3])
    longest = max(seen, default=0) + max(2, max(seen, default=0) // 2)
    free = [n for n in range(1, min(longest, room or longest) + 1) if n not in seen]
    if not seen or not free:
        return []
    near = words_near(words, symbols, options.words // 4, options.seed)
    made = []
    for word in near:
        length = int(rng.choice(free))
        start = int(rng.integers(len(word)))
        made.append(tuple(word[(start + i) % len(word)] for i in range(length)))
    return made


def _beyond(dfa: DFA, symbols: Sequence[str], longest: int, room: int | None) -> list[Word]:
    """Words longer than the lines, up to twice as long, that lead to each state by a random way.

    A count that goes on behind the lines betrays itself on these.

    Args:
        longest: the length of the longest line.
        room: the length of the longest word that the network can read; None if any will do.
    """
    lengths = range(longest + 1, min(2 * longest, room or 2 * longest) + 1)
    return long_ways(dfa, symbols, lengths, WAYS) if lengths else []


def _beyond_regular(
    about: Mapping[str, Any],
    induction: Induction,
    symbols: Sequence[str],
    lines: Lines,
    options: Discovery,
) -> dict[str, Any]:
    """The envelope of a language that counts, and how the automaton grows with the words.

    Empty where no equations are found, or where an automaton does better on the lines.
    """
    teacher = induction.teacher
    hull = envelope(teacher, symbols, [*lines.words, *induction.asked], options.seed)
    if hull is None:
        return {}
    wrong = int((hull.obeyed(lines.words, symbols) != lines.labels).sum())
    if about["status"] != "none" and not (hull.holds and wrong <= about["wrong"]):
        return {}
    if not hull.holds:
        return {"envelope": envelope_fields(hull)}
    longest = max(len(word) for word in lines.words)
    growing = {}
    for length in sorted({max(2, longest // 4), max(2, longest // 2), longest}):
        short = [word for word in induction.asked if len(word) <= length]
        if short:
            learned = extract(teacher, symbols, short, options.max_states, options.queries)
            growing[str(length)] = {
                "agrees": str(len(learned.dfa.states)),
                "states": f"more than {options.max_states}",
                "queries": "an unknown number of",
            }[learned.ended]
    return {
        "envelope": envelope_fields(hull),
        "states_by_length": growing,
        "status": "counts",
        "doubt": None,
        "rule": counted(hull),
        "wrong": wrong,
    }
