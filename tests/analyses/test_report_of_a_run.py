"""A run's report says what its answers say, and asks for nothing; its code gives them again."""

from __future__ import annotations

import html
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from conftest import made_once, tiny_config, without_pictures
from test_kinds import TASKS

from analyses.answers import Answer, Answers, answer, save, scorecard
from analyses.charts.accuracy import chart
from analyses.command_line.app import main
from analyses.options.behaviour import Accuracy
from analyses.options.parts import Patching
from analyses.reports.code import command_of, python_of
from analyses.reports.of_run import report
from models.errors import UserError
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow
HOSTILE = '<script src="http://192.0.2.1/a.js"></script>'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tiny run that was asked two questions, one of them with an option."""

    def make(folder: Path) -> None:
        run = Run.create(folder / "anbn-s0", tiny_config(steps=4))
        train(run, "cpu")
        with without_pictures():
            answer(run, "accuracy", TASKS["accuracy"][1])
            answer(run, "patching", Patching(word="a a b b"))

    return Run(made_once(tmp_path_factory, "report", make) / "anbn-s0")


def test_it_says_what_the_answers_say(run: Run) -> None:
    page = html.unescape(report(run))
    for row in scorecard(run).to_dict("records"):
        assert page.count(row["finding"]) >= 2
        assert f'<span class="grade">{row["grade"]}</span> {row["why"]}' in page
    for name in ("accuracy", "patching"):
        found = Answers.of(run, name).latest()
        assert found is not None
        assert found.sentence in page
        assert f"Table: {len(found.table)} rows" in page
    assert page.count("<svg") == 2
    assert "<li>probing: <code>lab analyse" in page
    assert "about step 4." in page
    assert "Asked with word a a b b, at" in page


def test_it_asks_for_nothing_and_runs_nothing(run: Run) -> None:
    page = report(run)
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert not re.search(r"url\((?!#)|@import", page)


def test_hostile_words_are_text(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", tiny_config(steps=2))
    train(run, "cpu")
    found, _ = answer(run, "accuracy", Accuracy(count=4))
    hostile = Answer(
        found.table.assign(model=found.table["model"].where(found.table["n"] != 1, HOSTILE)),
        HOSTILE,
        found.findings,
        found.arguments,
        found.model_hash,
    )
    save(run.path, "accuracy", HOSTILE, hostile, chart(found), 0.0)
    page = report(run)
    assert "<script" not in page
    assert HOSTILE in html.unescape(page)


def test_it_is_about_the_step_that_was_asked_for(run: Run) -> None:
    page = report(Run(run.path, 0))
    assert "about step 0." in page
    assert "<section" not in page
    assert "--step 0</code>" in page
    with pytest.raises(UserError, match="step"):
        report(Run(run.path, 3))


def test_the_command_writes_it(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    file = run.path.parent / "mine.html"
    assert main(["report", str(run.path), "--file", str(file)]) == 0
    written = file.read_text(encoding="utf-8")
    assert all(row in written for row in scorecard(run)["grade"])
    assert written.count("<svg") == 2
    assert "mine.html" in capsys.readouterr().out
    assert main(["report", str(run.path.parent / "nobody")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["accuracy", "patching"])
def test_the_code_gives_the_same_again(run: Run, name: str) -> None:
    kept = Answers.of(run, name).latest()
    assert kept is not None
    said: dict[str, object] = {}
    exec(python_of(run, name, kept.arguments), said)
    again = said["result"]
    assert isinstance(again, Answer)
    assert again.folder == kept.folder  # the very same: nothing was computed
    pd.testing.assert_frame_equal(again.table, kept.table)


def test_the_command_asks_the_same(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Answers.of(run, "patching").latest()
    assert kept is not None
    command = command_of(run, "patching", kept.arguments)
    assert command == f"lab analyse {run.path} patching --word 'a a b b'"
    as_tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.arguments.items()}
    assert any(isinstance(value, tuple) for value in as_tuples.values())
    assert command_of(run, "patching", as_tuples) == command  # it said --components '()'
    assert main(shlex.split(command)[1:]) == 0
    assert str(kept.folder) in "".join(capsys.readouterr().out.split())
    assert command_of(Run(run.path, 0), "accuracy", {"all_words": 3}).endswith(
        "accuracy --all-words 3 --step 0"
    )
