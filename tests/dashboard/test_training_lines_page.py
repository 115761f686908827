"""The page Training lines: its lists are those of the question, and its answer the kept one."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from compared import plainly
from conftest import tiny_config, tiny_of
from parts import part
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, drawn

from analyses.answers import Answer, fresh_answer, save
from analyses.options.training import InfluenceMethod, Lines
from analyses.questions.training import influence as asked
from analyses.questions.training import lines
from analyses.questions.training.of_lines import drawn_lines, listed
from dashboard.background import JOBS
from dashboard.views.explain import training_lines
from models.runs.run import Run
from models.training.loop import train

VERDICTS = {"language": "dieren", "objective": "verdict", "max_n": 8, "lines": 20, "steps": 6}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, changes in {
        "verdicts": {**VERDICTS, "disfluent": 0.3},
        "brackets": {"language": "dyck2", "max_n": 6, "lines": 12},
        "endless": {},
        "counted": {"model": tiny_of("ngram"), "lines": 12},
    }.items():
        train(Run.create(folder / name, tiny_config(**{"steps": 3, **changes})), "cpu")
    return folder


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SHOW.format(page="influence"), default_timeout=120)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    JOBS.wait()
    page.run()
    assert not page.exception
    return page


def said(page: AppTest) -> str:
    return " ".join(plainly(each.value) for each in [*page.markdown, *page.caption, *page.info])


@pytest.mark.parametrize("method", ["fisher", "tracin"])
def test_the_strongest_lines_are_those_of_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: InfluenceMethod
) -> None:
    run, word = Run(folder / "verdicts"), "leeuw olifant kat"
    link = {"word_dieren": word, "lines_method": listed.NAMED[method]}
    page = opened(folder, monkeypatch, run=run.name, **link)
    wanted = listed.for_word(run, word)[method]
    tables = drawn(page, "The lines that raised most")
    (rows,) = (table for table in tables if "model" in table)
    trained = rows[rows["model"] == "trained"]
    assert trained["line"].tolist() == drawn_lines._strongest(wanted)["line"].tolist()
    assert trained["value"].abs().max() == pytest.approx(1)
    assert "untrained" in set(rows["model"])
    found = fresh_answer(run, lines.QUESTION, Lines(word, method))
    assert found.claims
    assert plainly(found.sentence) in said(part(page, "Controls and limits"))
    part(page, "Numbers, files, code")
    assert any(f"--word '{word}' --method {method}" in each.value for each in page.code)


def test_suspects_stand_beside_the_rule(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="verdicts", lines_of=training_lines.SUSPECTS)
    run = Run(folder / "verdicts")
    wanted = listed.suspects(run, lines.TARGETS)["ek-fac"]
    table = page.dataframe[0].value
    assert table["line"].tolist() == wanted["line"].tolist()
    assert table["itself"].tolist() == pytest.approx(wanted["itself"] / wanted["itself"].max())
    wrong = int((wanted["label"] != wanted["truth"]).sum())
    assert wrong > 0
    found = fresh_answer(run, lines.QUESTION, Lines())
    assert found.claims[0].n == wrong
    assert plainly(found.sentence) in said(part(page, "Controls and limits"))


def test_the_kept_answer_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="brackets", lines_of=training_lines.COMPARED)
    assert f"`lab analyse {folder / 'brackets'} influence`" in page.info[0].value
    run = Run(folder / "brackets")
    row = (asked.HELD_OUT, "trained", "EK-FAC", asked.LDS, 0.25, 0.1, 0.4)
    table = pd.DataFrame([row], columns=list(asked.COLUMNS))
    answer = Answer(table, "All is well.", {}, {"seed": 0}, run.model_hash())
    save(run.path, "influence", asked.QUESTION.asks, answer, None)
    page = opened(folder, monkeypatch, run="brackets", lines_of=training_lines.COMPARED)
    assert "All is well." in said(page)
    part(page, asked.HELD_OUT.capitalize())
    assert page.dataframe[0].value["LDS"].tolist() == ["0.25 [0.10, 0.40]"]
    assert not page.warning


@pytest.mark.parametrize(
    ("run", "shown", "says"),
    [
        ("endless", training_lines.WORD, "with --lines"),
        ("counted", training_lines.WORD, "counted learns by counting"),
        ("brackets", training_lines.SUSPECTS, "not one label a line"),
    ],
)
def test_what_has_no_such_lines_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, run: str, shown: str, says: str
) -> None:
    page = opened(folder, monkeypatch, run=run, lines_of=shown)
    assert says in plainly(page.info[0].value)
    assert not page.error


def test_large_runs_are_left_to_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_lines, "LARGEST", 100)
    page = opened(folder, monkeypatch, run="verdicts")
    assert "lab analyse" in said(page)
    assert not page.get("vega_lite_chart")


def test_a_mistake_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="verdicts", word_dieren="paard")
    assert "unknown symbol 'paard'" in plainly(page.error[0].value)
