"""The space of rules, narrowed by answers: which rules are left, which lines decide between them.

Whoever knows the language labels a line that would decide; the rules that say otherwise are struck
out. The answers lie beside the record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from automata.fa.dfa import DFA
from pydantic import with_config
from typing_extensions import TypedDict

from analyses.questions.rule.rule_evidence import rebuilt
from analyses.rules.lines import in_words
from analyses.rules.record import LINES
from interp.automata.equivalence import Word
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.space import deciding, differing
from models.errors import UserError
from models.languages import read_lines
from models.runs.files import write_json
from models.runs.records import AS_WRITTEN, read_record

ANSWERS = "answers.json"


@with_config(AS_WRITTEN)
class _Answer(TypedDict):
    """A line with its label."""

    line: list[str]
    label: str


@with_config(AS_WRITTEN)
class _Answers(TypedDict):
    """answers.json."""

    answers: list[_Answer]


@dataclass(frozen=True)
class Question:
    """A line that would decide.

    Attributes:
        line: the line.
        accepting, rejecting: numbers of the rules that accept and that reject it.
    """

    line: Word
    accepting: int
    rejecting: int


@dataclass(frozen=True)
class Narrowed:
    """The space of rules after some answers.

    Attributes:
        left: the rules that no answer contradicts, as a record has them, the best of all or else
            the shortest code first; each other one with the share of words on which it differs from
            the first.
        struck: the rules that an answer contradicts.
    """

    left: list[dict[str, Any]]
    struck: list[dict[str, Any]]


def narrowed(
    record: Mapping[str, Any], answers: Mapping[Word, bool], lengths: Sequence[int]
) -> Narrowed:
    """The rules of a finished record, the best one among them, that fit the answers.

    Args:
        answers: is a line one of the accepted label? The answers fit the record's alphabet.
        lengths: the lengths of the words on which rules are compared, each as often as it counts.
    """
    if not record["space"]:
        return Narrowed([record["best"]] if record["best"] else [], [])
    rules = [record["best"], *record["space"]]
    automata = [automaton(rule["dfa"]) for rule in rules]
    words, labels = list(answers), np.array([*answers.values()], dtype=bool)
    fits = [bool((verdicts_of(dfa, words) == labels).all()) for dfa in automata]
    left = [rule for rule, fit in zip(rules, fits, strict=True) if fit]
    if left and not fits[0]:
        first, *others = (dfa for dfa, fit in zip(automata, fits, strict=True) if fit)
        symbols = _alphabet(left[0]["dfa"])
        shares = [differing(first, other, symbols, lengths) for other in others]
        left[1:] = [rule | {"differs": x} for rule, x in zip(left[1:], shares, strict=True)]
    return Narrowed(left, [rule for rule, fit in zip(rules, fits, strict=True) if not fit])


def questions(rules: Sequence[Mapping[str, Any]]) -> list[Question]:
    """The lines that decide between rules, the most telling first; none where one rule is left."""
    if len(rules) < 2:
        return []
    symbols = in_words(_alphabet(rules[0]["dfa"]))
    return _counted(rules, deciding([automaton(rule["dfa"]) for rule in rules], symbols))


def _counted(rules: Sequence[Mapping[str, Any]], lines: Sequence[Word]) -> list[Question]:
    """Lines with the numbers of the rules that accept and that reject them."""
    verdicts = np.array([verdicts_of(automaton(rule["dfa"]), lines) for rule in rules])
    accepting = verdicts.sum(axis=0).tolist()
    return [
        Question(line, count, len(rules) - count)
        for line, count in zip(lines, accepting, strict=True)
    ]


def automaton(kept: Mapping[str, Any]) -> DFA:
    """The automaton of a kept rule."""
    return rebuilt(dict(kept), _alphabet(kept))


def _alphabet(kept: Mapping[str, Any]) -> list[str]:
    """The symbols of a kept automaton, in their order."""
    return list(dict.fromkeys(symbol for _, symbol, _ in kept["transitions"]))


# -- what is kept of the answers ------------------------------------------------------------------


def answers_of(folder: Path, record: Mapping[str, Any]) -> dict[Word, bool]:
    """The kept answers to a discovery with a space of rules: is a line of the accepted label?

    Args:
        folder: the folder of the discovery.

    Raises:
        UserError: the file cannot be read, or it is damaged.
    """
    path, cure = folder / ANSWERS, "remove the file, and answer again"
    if not path.exists():
        return {}
    kept = read_record(path, _Answers, cure)["answers"]
    symbols, labels = {*_alphabet(record["best"]["dfa"])}, record["labels"]
    for answer in kept:
        if not answer["line"] or not symbols.issuperset(answer["line"]):
            raise UserError(f"{path} is damaged (a line that the rules cannot read): {cure}")
        if answer["label"] not in labels:
            raise UserError(f"{path} is damaged (a label that the lines do not have): {cure}")
    return {tuple(answer["line"]): answer["label"] == labels[0] for answer in kept}


def keep_answers(folder: Path, record: Mapping[str, Any], answers: Mapping[Word, bool]) -> None:
    """Replaces the kept answers at once. Raises UserError as ``write_bytes``."""
    label = {True: record["labels"][0], False: record["labels"][1]}
    kept = [_Answer(line=list(line), label=label[yes]) for line, yes in answers.items()]
    write_json(folder / ANSWERS, _Answers(answers=kept))


def with_answers(
    folder: Path, record: Mapping[str, Any], answers: Mapping[Word, bool]
) -> tuple[list[str], list[Word]]:
    """The labels and words of the lines and of the answers, which win over a line's own label."""
    labels, words, *_ = read_lines(folder / LINES)
    accepted, other = record["labels"]
    lines = dict(zip(words, labels, strict=True))
    lines |= {line: accepted if yes else other for line, yes in answers.items()}
    return [*lines.values()], [*lines]


# -- as a reader sees it ----------------------------------------------------------------------


def asked(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines that would decide, as rows: how many rules give a line which label."""
    accepted, other = record["labels"]
    lines = _counted([record["best"], *record["space"]], [tuple(x) for x in record["decide"]])
    return [
        {
            "line": " ".join(line.line),
            f"rules for {accepted}": line.accepting,
            f"rules for {other}": line.rejecting,
        }
        for line in lines
    ]


def outcome(record: Mapping[str, Any], space: Narrowed, answers: int) -> str:
    """A sentence: the number of rules that answers leave; a new first rule's fit to the lines."""
    rules, some = len(record["space"]) + 1, "answer" if answers == 1 else f"{answers} answers"
    if not space.left:
        return f"Your {some} contradict{'s' * (answers == 1)} all {rules} rules."
    left, first = len(space.left), space.left[0]
    sentence = f"By your {some} {left} rule{'s are' if left > 1 else ' is'} left of {rules}."
    if first == record["best"]:
        return sentence
    return f"{sentence} It fits {first['lines'] - first['wrong']} of the {first['lines']} lines."
