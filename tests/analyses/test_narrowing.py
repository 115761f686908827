"""Answers to the lines that would decide: which rules they leave, and what is kept of them."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analyses.questions.rule.rule_evidence import Lines, described
from analyses.rules.choice import best_of, choice
from analyses.rules.lines import as_tsv, prepared
from analyses.rules.narrowing import (
    ANSWERS,
    answers_of,
    asked,
    automaton,
    keep_answers,
    narrowed,
    outcome,
    questions,
    with_answers,
)
from analyses.rules.record import LINES
from interp.automata.equivalence import Word
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.search import search
from interp.automata.induction import weighed
from interp.automata.passive.annealing import annealed
from interp.automata.rule_search import same
from interp.automata.rules import Families, Rule
from models.errors import UserError
from models.languages import RegularLanguage, language
from models.languages.corpus import MERGED
from models.runs.files import write_json

ABC = ("a", "b", "c")
F = Families(ABC)
RULES = (F.contains("a"), F.starts("a"), F.contains("a", "b"), F.even("a"))
WORDS = [w for length in range(1, 5) for w in product(ABC, repeat=length)]


def row(rule: Rule, bits: float) -> dict[str, Any]:
    about = {"words": rule.text, "class": "some", "way": "classes", "wrong": 1, "lines": 30}
    return about | described(rule.dfa, None, rule.dfa.input_symbols) | about | {"bits": bits}


def recorded(*rules: Rule) -> dict[str, Any]:
    best, *space = (row(rule, float(bits)) for bits, rule in enumerate(rules))
    decide = [list(line.line) for line in questions([best, *space])]
    return {"labels": ["ja", "nee"], "best": best, "space": space, "decide": decide}


@pytest.mark.parametrize("truth", RULES, ids=lambda rule: rule.text)
def test_answers_leave_the_rules_that_they_do_not_contradict(truth: Rule) -> None:
    record, answers = recorded(*RULES), dict[Word, bool]()
    while lines := questions(narrowed(record, answers, [4]).left):
        answers[lines[0].line] = bool(verdicts_of(truth.dfa, [lines[0].line])[0])
        space = narrowed(record, answers, [4])
        fits = [verdicts_of(rule.dfa, list(answers)).tolist() for rule in RULES]
        assert [rule["words"] for rule in space.left] == [
            rule.text for rule, fit in zip(RULES, fits, strict=True) if fit == [*answers.values()]
        ]
        assert len(space.left) + len(space.struck) == len(RULES)
    assert [rule["words"] for rule in space.left] == [truth.text]
    assert len(answers) <= 2  # each of them halves the four


def test_a_new_first_rule_is_what_the_others_differ_from() -> None:
    record = recorded(*RULES)
    assert narrowed(record, {}, [4]).left == [record["best"], *record["space"]]
    left = narrowed(record, {("b", "a"): False}, [3, 4]).left  # contains a: struck out
    assert [rule["words"] for rule in left] == [rule.text for rule in RULES[1:]]
    for rule in left[1:]:
        apart = [
            np.mean(verdicts_of(automaton(rule["dfa"]), some) != verdicts_of(RULES[1].dfa, some))
            for some in ([w for w in WORDS if len(w) == length] for length in (3, 4))
        ]
        assert rule["differs"] == pytest.approx(np.mean(apart))


def test_a_question_says_how_many_rules_give_which_label() -> None:
    record = recorded(*RULES)
    for line in questions([record["best"], *record["space"]]):
        yes = sum(bool(verdicts_of(rule.dfa, [line.line])[0]) for rule in RULES)
        assert (line.accepting, line.rejecting) == (yes, 4 - yes)
        shown = {"line": " ".join(line.line), "rules for ja": yes, "rules for nee": 4 - yes}
        assert shown in asked(record)


def test_nobody_is_asked_of_words_that_are_not_told_apart() -> None:
    f = Families(("a", f"{MERGED}1", f"{MERGED}2"))
    record = recorded(f.contains("a"), f.contains(f"{MERGED}1"), f.contains(f"{MERGED}2"))
    lines = questions([record["best"], *record["space"]])
    assert [line.line for line in lines] == [("a",)]
    assert questions(narrowed(record, {("a",): False}, [2]).left) == []


def test_what_answers_leave_in_a_sentence() -> None:
    record = recorded(*RULES)

    def said(answers: dict[Word, bool]) -> str:
        return outcome(record, narrowed(record, answers, [4]), len(answers))

    assert said({("a",): True}) == "By your answer 2 rules are left of 4."
    assert said({("b", "a"): False, ("a",): True}) == (
        "By your 2 answers 1 rule is left of 4. It fits 29 of the 30 lines."
    )
    assert said({("c",): True, ("a",): True}) == "Your 2 answers contradict all 4 rules."


def test_answers_are_kept_and_win_over_the_lines(tmp_path: Path) -> None:
    record = recorded(*RULES)
    (tmp_path / LINES).write_text(as_tsv(["ja", "nee"], [("a",), ("b",)]), encoding="utf-8")
    assert answers_of(tmp_path, record) == {}
    answers = {("c", "a"): True, ("b",): True, ("c",): False}
    keep_answers(tmp_path, record, answers)
    assert answers_of(tmp_path, record) == answers
    labels, words = with_answers(tmp_path, record, answers)
    assert dict(zip(words, labels, strict=True)) == {
        ("a",): "ja",
        ("b",): "ja",
        ("c", "a"): "ja",
        ("c",): "nee",
    }
    keep_answers(tmp_path, record, {})
    assert answers_of(tmp_path, record) == {}


@pytest.mark.parametrize(
    "damage",
    [
        None,
        [{"line": "a", "label": "ja"}],
        [{"line": [], "label": "ja"}],
        [{"line": ["a"], "label": "maybe"}],
        [{"line": ["kat"], "label": "ja"}],
    ],
)
def test_damaged_answers_are_one_line(tmp_path: Path, damage: Any) -> None:
    write_json(tmp_path / ANSWERS, {"answers": damage})
    with pytest.raises(UserError, match=r"^[^\n]*answers.json is damaged[^\n]*answer again$"):
        answers_of(tmp_path, recorded(*RULES))


@pytest.mark.parametrize("name", ["tomita7", "rdp1", "ldp2"])
def test_the_true_rule_is_alone_after_ten_answers(name: str, tmp_path: Path) -> None:
    """250 drawn lines, as `lab rule` reads them. No short formula says ldp2; an automaton does."""
    truth = language(name)
    assert isinstance(truth, RegularLanguage)
    sample = truth.sample(np.random.default_rng(0), 250, range(1, 13))
    rows = zip(sample.words.ids, sample.words.lengths, strict=True)
    drawn = [truth.vocabulary.decode(ids[:length]) for ids, length in rows if length]
    labels = ["in" if truth.contains(word) else "out" for word in drawn]
    (tmp_path / LINES).write_text(as_tsv(labels, drawn), encoding="utf-8")
    labels, words, _ = prepared(tmp_path / LINES, "in")
    lines = Lines(words, np.array(labels) == "in")
    symbols = truth.vocabulary.symbols
    searched = search(lines.words, lines.labels, symbols)
    rule = best_of(searched).formula.rule(symbols)
    way = described(rule.dfa, None, symbols) | {"way": "classes", "status": "rule", "rule": None}
    way |= {"wrong": best_of(searched).wrong, "bits": 0.0, "written": 0.0}
    if way["wrong"]:
        dfa = annealed(lines.words, lines.labels, symbols, rule.dfa)
        wrote = weighed(dfa, symbols, lines.words, lines.labels, None, "classes")
        way |= described(dfa, wrote, symbols) | {"written": wrote.written}
    # A network whose best automaton explains too little of it has no code to compare.
    network = way | {"way": "LSTM", "status": "none", "bits": None, "written": None}
    record = choice([network, way], searched, lines, symbols)
    assert record["best"]["way"] == "classes"
    assert any(
        same(automaton(rule["dfa"]), truth.dfa) for rule in [record["best"], *record["space"]]
    )
    answers: dict[Word, bool] = {}
    while asks := questions(narrowed(record, answers, [6]).left):
        answers[asks[0].line] = truth.contains(asks[0].line)
    (left,) = narrowed(record, answers, [6]).left
    assert same(automaton(left["dfa"]), truth.dfa)
    assert 0 < len(answers) <= 10
