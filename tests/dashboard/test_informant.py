"""The page "From lines to a rule" takes answers: a click strikes out rules, or is taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn import read_json
from streamlit.testing.v1 import AppTest
from test_pages import said
from test_upload import Learners, folder, opened, press, started

from analyses.questions.rule.rule_evidence import Lines, described
from analyses.rules.choice import best_of, choice
from analyses.rules.lines import as_tsv
from analyses.rules.narrowing import ANSWERS, automaton
from analyses.rules.record import LINES, RECORD
from interp.automata.extraction import run as verdicts_of
from interp.automata.formulas.search import search
from models.languages import read_lines
from models.runs.files import write_json

__all__ = ["folder", "started"]  # fixtures
IN = "ab cab acb cacb abc abcc caab aacb ccab abb acbb"
OUT = "c cc ccc b cb bc bb cbc bcb a ca ac"
ABC = ("a", "b", "c")
BEST = "#### A line is yes if it contains a ... b in this order."


@pytest.fixture
def record(folder: Path) -> dict[str, Any]:
    """A discovery of a few lines that contain a ... b or do not; the space of their rules."""
    words = [tuple(word) for word in (*IN.split(), *OUT.split())]
    lines = Lines(words, np.arange(len(words)) < len(IN.split()))
    searched = search(words, lines.labels, ABC)
    fit = best_of(searched)
    about = described(fit.formula.rule(ABC).dfa, None, ABC)
    way = {"way": "classes", "status": "rule", "rule": fit.formula.rule(ABC).text, "states": 3}
    way |= {"dfa": about["dfa"], "wrong": 0, "bits": 0.0, "written": 0.0, "same": True}
    way |= {"seconds": 1.0, "held-out right": None, "held out": 0}
    nothing = {"status": "none", "headline": "No network.", "evidence": "", "rule": None}
    record = {"status": "finished", "options": {}, "doing": "", "networks": [], "name": "small"}
    record |= {"labels": ["yes", "no"], "run": None, "found": nothing | {"dfa": None}}
    record |= {"ways": [way], "disagreements": []} | choice([way], searched, lines, ABC)
    labels = ["yes" if label else "no" for label in lines.labels]
    (folder / "small").mkdir(parents=True)
    (folder / "small" / LINES).write_text(as_tsv(labels, words), encoding="utf-8")
    write_json(folder / "small" / RECORD, record)
    return record


def answer(page: AppTest, line: str, yes: bool) -> None:
    page.button(key=f"answer {yes} {line}").click().run()
    assert not page.exception
    assert not page.error


def first_line(page: AppTest) -> str:
    """The line that is asked of first."""
    key = next(str(b.key) for b in page.button if str(b.key).startswith("answer True "))
    return key.removeprefix("answer True ")


def test_an_answer_strikes_out_rules_and_can_be_taken_back(
    folder: Path, record: dict[str, Any]
) -> None:
    page = opened()
    assert BEST in said(page)
    assert f"The lines do not exclude {len(record['space'])} other rules" in said(page)
    best, line = automaton(record["best"]["dfa"]), first_line(page)
    by_best = bool(verdicts_of(best, [tuple(line.split())])[0])
    answer(page, line, not by_best)
    assert BEST not in said(page)
    assert "By your answer" in said(page)
    assert "It fits 23 of the 23 lines." in said(page)
    assert "~~contains a ... b in this order~~" in said(page)
    kept = {"line": line.split(), "label": "no" if by_best else "yes"}
    assert read_json(folder / "small" / ANSWERS) == {"answers": [kept]}
    assert BEST not in said(opened())  # as another reader finds it
    press(page, "Take back")
    assert BEST in said(page)
    assert "Your answers" not in said(page)
    assert read_json(folder / "small" / ANSWERS) == {"answers": []}


def test_true_answers_leave_one_rule_and_are_learned_again(
    folder: Path, started: Learners, record: dict[str, Any]
) -> None:
    page, lines = opened(), []
    while "One rule is left." not in said(page):
        lines.append(first_line(page))
        answer(page, lines[-1], "b" in lines[-1].partition("a")[2])
    assert BEST in said(page)
    assert len(lines) <= 10
    press(page, "Learn again with these answers")
    assert page.selectbox(key="corpus").value == "small-2"
    assert len(started) == 1
    labels, words, *_ = read_lines(folder / "small-2" / LINES)
    assert labels == sorted(labels, reverse=True)  # the accepted label first
    for label, word in zip(labels, words, strict=True):
        assert (label == "yes") == ("b" in "".join(word).partition("a")[2])
    assert set(words) >= {tuple(line.split()) for line in lines}
    assert len(words) == 23 + len(lines)


def test_answers_that_no_rule_gives(folder: Path, record: dict[str, Any]) -> None:
    wrong = {"answers": [{"line": ["c", "c", "c"], "label": "yes"}]}  # all rules fit all lines
    write_json(folder / "small" / ANSWERS, wrong)
    page = opened()
    assert "No rule of the space is left: learn again with the answers." in said(page)
    assert BEST not in said(page)
    assert "Your answer contradicts all" in said(page)


def test_damaged_answers_are_one_line(folder: Path, record: dict[str, Any]) -> None:
    (folder / "small" / ANSWERS).write_text("{", encoding="utf-8")
    (error,) = opened().error
    assert "answers.json is not valid JSON" in error.value.replace("\\", "")
    assert "\n" not in error.value
