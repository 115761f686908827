"""An automaton from a file in AT&T form: the classes of rules it belongs to, and its rule."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from automata.fa.dfa import DFA

from analyses.questions.rule.rule_evidence import described
from interp.automata.classes import Membership, classes_of
from interp.automata.extraction import canonical
from interp.automata.rule_search import rule_of
from models.errors import UserError
from models.plain_files import read_text

MOST_BYTES = 4 * 2**20
MOST_STATES, MOST_SYMBOLS = 500, 200
CURE = (
    "write an arrow a line, from <tab> to <tab> symbol <tab> symbol, without a weight, then the "
    "accepting states, one a line"
)
NOTHING = ("@0@", "<eps>", "ε", "@_EPSILON_SYMBOL_@")
"""Symbols by which AT&T form says that an arrow reads nothing."""
ANYTHING = ("@_IDENTITY_SYMBOL_@", "@_UNKNOWN_SYMBOL_@")
"""Symbols by which it says that an arrow reads any symbol without an arrow of its own."""
NO_WEIGHT = re.compile(r"\t0\.0+$")
"""The end of a line as HFST writes it, whose automata all have weights."""


def read_automaton(path: Path) -> tuple[DFA, list[str]]:
    """The minimal complete automaton of a file, and its symbols in order.

    Raises:
        UserError: the file cannot be read; a line is none of the form; the automaton is none of
            fixed steps, or is larger than the bounds.
    """
    text = read_text(path, CURE, MOST_BYTES)
    rows: dict[int, dict[str, int]] = {0: {}}
    final = set()
    for number, line in enumerate(text.split("\n"), start=1):
        parts = NO_WEIGHT.sub("", line.rstrip("\r")).split("\t")
        if parts == [""]:
            continue
        if len(parts) == 1 and _numbers(parts):
            final.add(int(parts[0]))
        elif (
            len(parts) == 4
            and _numbers(parts[:2])
            and all(part.split() == [part] for part in parts[2:])
        ):
            _add(rows, parts, f"{path}, line {number}")
        else:
            raise UserError(f"{path}, line {number}: no arrow and no accepting state: {CURE}")
    symbols = sorted({symbol for row in rows.values() for symbol in row})
    if not symbols:
        raise UserError(f"{path} has no arrow: {CURE}")
    states = rows.keys() | final | {q for row in rows.values() for q in row.values()}
    if len(states) > MOST_STATES or len(symbols) > MOST_SYMBOLS:
        raise UserError(
            f"{path} has {len(states)} states and {len(symbols)} symbols: give an automaton of "
            f"{MOST_STATES} and {MOST_SYMBOLS} at most"
        )
    dead = max(states) + 1
    dfa = DFA(
        states=states | {dead},
        input_symbols=set(symbols),
        transitions={
            q: {symbol: rows.get(q, {}).get(symbol, dead) for symbol in symbols}
            for q in states | {dead}
        },
        initial_state=0,
        final_states=final,
    )
    return canonical(dfa, symbols), symbols


def _numbers(parts: list[str]) -> bool:
    return all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts)


def _add(rows: dict[int, dict[str, int]], parts: list[str], where: str) -> None:
    """Adds an arrow."""
    source, target, symbol, output = int(parts[0]), int(parts[1]), *parts[2:]
    if symbol != output:
        raise UserError(f"{where} turns {symbol} into {output}: write the same symbol twice")
    if symbol in NOTHING:
        raise UserError(f"{where} reads nothing: give an automaton whose arrows all read a symbol")
    if symbol in ANYTHING:
        raise UserError(f"{where} reads any other symbol: write an arrow for each symbol")
    if rows.setdefault(source, {}).setdefault(symbol, target) != target:
        raise UserError(
            f"{where}: a second arrow leaves {source} with {symbol}: give a deterministic automaton"
        )


def rule_of_automaton(dfa: DFA, symbols: list[str]) -> dict[str, Any]:
    """The simplest class of an automaton, its rule in words, and its other classes.

    Keys: class (None if it was not decided), window, threshold, tier (None where there is none),
    text (the class in words), classes (a list of the same, the simplest first), undecided (names
    of classes), n_states, words (the rule, or None), dfa.
    """
    classes = classes_of(dfa, symbols)
    rule = rule_of(dfa, symbols)
    members = [_as_json(member) for member in classes.memberships]
    return {
        **(members[0] if members else dict.fromkeys(_as_json(Membership("Reg")))),
        "classes": members,
        "undecided": list(classes.undecided),
        "n_states": len(dfa.states),
        "words": rule.text if rule else None,
        "dfa": described(dfa, None, symbols)["dfa"],
    }


def _as_json(member: Membership) -> dict[str, Any]:
    return {
        "class": member.name,
        "window": member.window,
        "threshold": member.threshold,
        "tier": None if member.tier is None else list(member.tier),
        "text": member.text,
    }


def sentences(answer: dict[str, Any]) -> tuple[str, ...]:
    """The answer in words: the rule, its class, and the other classes it is in."""
    words, others = answer["words"], [member["text"] for member in answer["classes"][1:]]
    return (
        f"A word is accepted if it {words}." if words else "The lab has no words for this rule.",
        f"Its class: {answer['text'] or 'not decided'}.",
        *([f"It is also: {'; '.join(others)}."] if others else []),
        *([f"Not decided: {', '.join(answer['undecided'])}."] if answer["undecided"] else []),
        f"The minimal complete automaton has {answer['n_states']} states.",
    )
