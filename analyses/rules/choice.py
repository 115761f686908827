"""The best rule, whoever found it; the others that fit the lines; the lines that would decide.

All finders are judged alike: by the length of the code that writes down a rule and its exceptions
among the lines that chose it. The lines that were held out then judge the best rule, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from analyses.questions.rule.rule_evidence import Lines, described, in_common, rebuilt
from analyses.rules.lines import in_words
from interp.automata.classes import classes_of
from interp.automata.evidence import automaton_bits
from interp.automata.formulas.search import BEYOND, CLASSES, Fit, Searched
from interp.automata.formulas.space import deciding, differing, space
from interp.automata.induction import Found, weighed
from interp.automata.passive.annealing import turned
from interp.automata.rule_search import rule_of, same

MOST_TRIED = 100
"""So many formulas beside the best are looked at for the space of rules."""
FITTED = ("p_fitted", "tried", "kinds", "having")
"""The keys of the findings of ``chance``."""
KEPT = ("dfa", "n_states", "regex", "wrong", "lines", "bits", "way")
"""The keys that are kept of a rule."""
NEAR = "one arrow elsewhere"
"""The way of a rule whose automaton is that of the best rule but for an arrow."""
RELIABLE = ("rule", "exceptions", "counts")


def best_of(searched: Searched) -> Fit:
    """The shortest of all formulas."""
    return min(searched.best.values(), key=lambda fit: fit.bits)


def chance(fit: Fit, answers: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """The evidence for a rule on the very lines that it was found by.

    The p-value is that of Fisher's exact test, one-sided, times the number of rules of this kind
    that were tried, times the number of kinds (Bonferroni); at most 1. Beside it stand these
    numbers, and how many lines of each label obey the rule.
    """
    kinds = len(CLASSES) + 1
    having = [[int(answers[labels == s].sum()), int((labels == s).sum())] for s in (True, False)]
    p = in_common(answers, labels) * fit.tried * kinds
    return {"p_fitted": min(1.0, p), "tried": fit.tried, "kinds": kinds, "having": having}


def same_rule(
    way: dict[str, Any], best: dict[str, Any] | None, symbols: Sequence[str]
) -> bool | None:
    """Does a finder have the best rule? None where one of them has no automaton."""
    if best is None or best["dfa"] is None or way["dfa"] is None:
        return None
    return same(*(rebuilt(rule["dfa"], symbols) for rule in (way, best)))


def choice(
    ways: Sequence[dict[str, Any]], searched: Searched, lines: Lines, symbols: Sequence[str]
) -> dict[str, Any]:
    """The best rule, the space of rules beside it, and the lines that would decide; JSON-able.

    Args:
        ways: a row for each finder, as ``record`` holds them.
        searched: the formulas that were found in the lines.
        lines: all lines.
        symbols: the alphabet.
    """
    reliable = [way for way in ways if way["status"] in RELIABLE]
    nothing: dict[str, Any] = {"space": [], "decide": []}
    if not reliable:
        return {"best": None} | nothing
    first = min(reliable, key=lambda way: 0.0 if way["status"] == "counts" else way["bits"])
    best = {"way": first["way"], "status": first["status"], "wrong": first["wrong"]}
    if first["status"] == "counts":
        rule = {"words": first["rule"], "class": "not regular", "dfa": None}
        return {"best": best | rule | {"regex": None}} | nothing
    weighable = [way for way in ways if way["dfa"] and way["bits"] is not None]
    candidates = {way["way"]: _known(way, lines, symbols) for way in weighable}
    chosen = candidates[first["way"]]
    rules = [
        weighed(rule.dfa, symbols, lines.words, lines.labels, rule, "classes", look=False)
        for rule in (fit.formula.rule(symbols) for fit in searched.others[:MOST_TRIED])
    ]
    rules += _near(chosen, lines, symbols)
    fitting = space(chosen, [*candidates.values(), *rules], symbols)
    lengths = [len(word) for word in lines.words]
    texts = {way["way"]: way["rule"] for way in ways}
    others = [
        _about(rule, texts, symbols)
        | {"differs": differing(chosen.dfa, rule.dfa, symbols, lengths)}
        for rule in fitting[1:]
    ]
    words = deciding([rule.dfa for rule in fitting], in_words(symbols))
    return {
        "best": _about(chosen, texts, symbols) | best,
        "space": others,
        "decide": [list(word) for word in words],
    }


def _known(way: dict[str, Any], lines: Lines, symbols: Sequence[str]) -> Found:
    """The rule of a finder, weighed by all lines."""
    dfa = rebuilt(way["dfa"], symbols)
    rule = weighed(dfa, symbols, lines.words, lines.labels, None, way["way"], look=False)
    shorter = min(rule.written, way["written"])  # in words it may be shorter than its table
    return replace(rule, bits=rule.bits - rule.written + shorter, written=shorter)


def _near(chosen: Found, lines: Lines, symbols: Sequence[str]) -> list[Found]:
    """The automata with one arrow elsewhere, which the lines do not exclude either.

    If the rule in words is much shorter than the automaton's table, none of them is of interest.
    """
    table = automaton_bits(chosen.dfa, symbols)
    if table > chosen.written + BEYOND:
        return []
    return [
        weighed(dfa, symbols, lines.words, lines.labels, None, NEAR, look=False)
        for dfa in turned(lines.words, lines.labels, symbols, chosen.dfa)
    ]


def _about(rule: Found, texts: dict[str, str | None], symbols: Sequence[str]) -> dict[str, Any]:
    """A rule as data: in words, its class, its automaton, and what the lines say of it.

    Args:
        texts: the rules of the finders in words.
    """
    simplest = classes_of(rule.dfa, symbols).simplest
    row = described(rule.dfa, rule, symbols)
    if rule.way == NEAR:
        rule = replace(rule, rule=rule_of(rule.dfa, symbols, empty=False))
    return {
        "words": rule.rule.text if rule.rule else texts.get(rule.way),
        "class": simplest.text if simplest else "not decided",
        **{key: row[key] for key in KEPT},
    }
