"""Training from the page: what is asked for, what waits, what was interrupted, what was removed."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from compared import plainly
from conftest import tiny_config
from parts import part
from streamlit.testing.v1 import AppTest

from analyses.command_line.arguments import read
from analyses.studies.listing import runs_of
from dashboard import processes
from dashboard.views.languages.own_language import _words_of
from dashboard.views.languages.removed import _put_back, _removed, remove
from models.errors import UserError
from models.families import FAMILIES
from models.languages import FormalLanguage, RegularLanguage, language
from models.objectives import OBJECTIVES, objective
from models.runs.files import locked
from models.runs.folders import RUN_FILE, find_runs
from models.runs.run import Run

PAGE = 'from dashboard.pages import pages\npages()["{page}"].draw()'


class Process:
    """A command that a page has started; it goes on until a test ends it."""

    all: ClassVar[list[Process]] = []

    def __init__(self, command: list[str], **_: object) -> None:
        self.words, self.ended, self.signals = command[3:], False, list[int]()
        Process.all.append(self)

    def poll(self) -> int | None:
        return 0 if self.ended else None

    def wait(self) -> int:
        return 0

    def send_signal(self, signal: int) -> None:
        self.signals.append(signal)
        self.ended = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Process]]:
    """The processes that were started, which do nothing."""
    Process.all = []
    works = processes._Works()
    monkeypatch.setattr("dashboard.processes.Popen", Process)
    monkeypatch.setattr("dashboard.processes._works", lambda: works)
    yield Process.all
    for process in Process.all:
        process.ended = True


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    return tmp_path


def opened(page: str = "train", **link: str) -> AppTest:
    shown = AppTest.from_string(PAGE.format(page=page), default_timeout=60)
    for key, value in link.items():
        shown.query_params[key] = value
    shown.run()
    assert not shown.exception
    return shown


def press(page: AppTest, label: str) -> None:
    (button,) = (each for each in page.button if each.label == label)
    button.click().run()
    assert not page.exception


def said(page: AppTest) -> str:
    parts = [*page.markdown, *page.info, *page.caption, *page.warning]
    return "\n".join(plainly(each.value) for each in parts)


def interrupted(folder: Path, name: str = "anbn-s0") -> Run:
    return Run.create(folder / name, tiny_config())


def test_the_page_asks_for_what_was_chosen(folder: Path, started: list[Process]) -> None:
    page = opened(train_language="anbncn", train_kind="lstm")
    page.number_input(key="train_steps_anbncn").set_value(7).run()
    page.number_input(key="train_seed").set_value(3).run()
    press(page, "Train")
    (process,) = started
    name, *words = process.words
    assert name == "train"
    asked = read("train", words)
    assert (asked.config.language, asked.config.model.architecture) == ("anbncn", "lstm")
    assert (asked.config.steps, asked.config.seed, asked.out) == (7, 3, folder)
    assert "anbncn-lstm-s3 begins" in said(page)
    assert read("train", ["anbncn", "--model.architecture", "lstm"]).config.steps != 7
    assert page.code[-1].value == " ".join(["lab train", *words])


def test_a_language_model_is_asked_for(folder: Path, started: list[Process]) -> None:
    page = opened(train_language="nested", train_objective="language-model")
    press(page, "Train")
    (process,) = started
    asked = read("train", process.words[1:])
    assert (asked.config.objective, asked.config.model.output) == ("language-model", "softmax")
    assert "nested-lm-s0 begins" in said(page)
    usual = opened(train_language="dieren")
    assert "--objective" not in said(usual)
    assert usual.selectbox(key="train_objective").value == "verdict"


def test_each_kind_of_model_and_each_objective_has_its_caption(folder: Path) -> None:
    page = opened(train_language="anbn")
    for name, family in FAMILIES.items():
        if not family.two_sided:
            page.selectbox(key="train_kind").set_value(name).run()
            assert family.caption in said(page)
    page = opened(train_language="reverse")
    for name, family in FAMILIES.items():
        if family.two_sided:
            page.selectbox(key="train_kind").set_value(name).run()
            assert family.caption in said(page)
    for name in OBJECTIVES:
        page.selectbox(key="train_objective").set_value(name).run()
        assert objective(name).caption in said(page)


def test_a_language_of_ones_own(folder: Path, started: list[Process]) -> None:
    page = opened(train_language="a regular expression of mine")
    page.text_input(key="own_name").set_value("no-ab").run()
    page.text_input(key="own_regex").set_value("b*a*").run()
    page.text_input(key="own_symbols").set_value("c").run()
    assert not page.error
    assert "A word is in it if it **" in said(page)
    known = RegularLanguage.from_regex("no-ab", "b*a*", "abc")
    for label in (True, False):
        words = _words_of(known, label)
        assert len(words) == 6
        assert all(known.contains(word) == label for word in words)
        assert all(f"`{' '.join(word)}`" in said(page) for word in words)
    press(page, "Train")
    (process,) = started
    asked = read("train", process.words[1:]).config
    assert (asked.language, asked.regex, asked.symbols) == ("no-ab", "b*a*", "c")
    assert asked.objective == "next-symbols"
    page.text_input(key="own_regex").set_value("b*(a").run()
    assert "cannot be read" in page.error[0].value
    assert "Train" not in [each.label for each in page.button]
    page.text_input(key="own_regex").set_value("b*`**x").run()
    assert "use letters and digits as symbols" in page.error[0].value
    page.text_input(key="own_name").set_value("--out=evil").run()
    assert "no name for a language" in page.error[0].value


def test_a_grammar_of_ones_own(folder: Path, started: list[Process]) -> None:
    page = opened(train_language="a grammar of mine")
    page.text_input(key="own_grammar_name").set_value("nested-ab").run()
    page.text_area(key="own_grammar").set_value("S -> 'a' S 'b'\nS -> 'a' 'b'").run()
    assert not page.error
    known = language("anbn")
    assert isinstance(known, FormalLanguage)
    for word in ("a b", "a a b b"):
        assert f"`{word}`" in said(page)
    assert page.code[0].value == "(S a (S a (S a (S a (S a b) b) b) b) b)"
    printed = shlex.split(page.code[-1].value)
    assert read("train", printed[2:]).config.grammar == "S -> 'a' S 'b'\nS -> 'a' 'b'"
    press(page, "Train")
    (process,) = started
    asked = read("train", process.words[1:]).config
    assert (asked.language, asked.grammar) == ("nested-ab", "S -> 'a' S 'b'\nS -> 'a' 'b'")
    assert asked.objective == "next-symbols"
    page.text_area(key="own_grammar").set_value("S -> 'a' S 'b'\nS -> T").run()
    assert "line 2: T has no production" in plainly(page.error[0].value)
    assert "Train" not in [each.label for each in page.button]


def test_some_work_waits_and_can_be_stopped(folder: Path, started: list[Process]) -> None:
    page = opened()
    page.number_input(key="train_seeds").set_value(processes.AT_ONCE + 1).run()
    press(page, "Train")
    assert len(started) == processes.AT_ONCE
    waiting = f"anbn-s{processes.AT_ONCE}"
    assert f"{waiting} waits until another training has ended" in said(page)
    assert processes.is_waiting(folder / waiting)
    assert f"**{waiting}**: waits until another one has ended" in said(opened("work"))
    processes.stop(folder / "anbn-s0")
    assert len(started[0].signals) == 1  # as by Ctrl+C
    processes._works().start()
    assert started[-1].words[-1] == str(processes.AT_ONCE)
    assert not processes.is_waiting(folder / waiting)
    processes.begin(folder / waiting, ["train"], folder / "log")  # it goes on: not begun twice
    assert len(started) == processes.AT_ONCE + 1


def test_what_waits_is_forgotten_when_it_is_stopped(folder: Path, started: list[Process]) -> None:
    for number in range(processes.AT_ONCE + 1):
        processes.begin(folder / str(number), ["train"], folder / "log")
    processes.stop(folder / str(processes.AT_ONCE))
    assert len(processes.begun()) == processes.AT_ONCE
    for process in started:
        process.ended = True
    processes._works().start()
    assert len(started) == processes.AT_ONCE


def test_a_pipe_in_the_place_of_a_log_is_not_waited_for(
    folder: Path, started: list[Process]
) -> None:
    os.mkfifo(folder / "log")
    processes.begin(folder / "anbn-s0", ["train"], folder / "log")
    assert (folder / "log").is_file()


def test_a_taken_name_is_not_begun(folder: Path, started: list[Process]) -> None:
    interrupted(folder)
    page = opened()
    assert "anbn-s0 is here already: another seed" in said(page)
    assert next(each for each in page.button if each.label == "Train").disabled


def test_a_damaged_run_hides_no_training(folder: Path, started: list[Process]) -> None:
    interrupted(folder)
    (interrupted(folder, "anbn-s1").path / RUN_FILE).write_text("")
    page = opened()
    assert "**anbn-s0**" in said(page)
    assert not page.error


def test_an_interrupted_run_says_so_and_goes_on(folder: Path, started: list[Process]) -> None:
    run = interrupted(folder)
    assert runs_of(folder)["status"].tolist() == ["interrupted"]
    with locked(run.path):
        assert runs_of(folder)["status"].tolist() == ["training"]
        page = opened()
        assert not [each for each in page.button if each.label in ("Go on", "Stop")]
        assert "It was begun elsewhere" in said(page)
    page = opened()
    press(page, "Go on")
    assert [process.words for process in started] == [["resume", str(run.path)]]
    assert [each.label for each in page.button if each.label in ("Go on", "Stop")] == ["Stop"]


def test_a_run_is_removed_and_put_back(folder: Path, started: list[Process]) -> None:
    run = interrupted(folder)
    before = run.record
    page = opened()
    press(page, "Remove")
    assert find_runs(folder) == []
    assert _removed() == ["anbn-s0"]
    press(page, "Put back")
    assert _removed() == []
    assert Run(run.path).record == before


def test_the_chosen_run_is_removed_from_its_own_page(folder: Path, started: list[Process]) -> None:
    first, second = interrupted(folder), interrupted(folder, "dieren-s1")
    page = opened("runs", run="anbn-s0")
    press(part(page, "Report and removal"), "Remove this run")
    assert _removed() == ["anbn-s0"]
    assert find_runs(folder) == [second.path]
    assert page.selectbox(key="run").value == "dieren-s1"
    assert not page.error
    press(part(page, "All runs"), "Put back")
    assert find_runs(folder) == [first.path, second.path]
    with locked(first.path):
        press(part(opened("runs", run="anbn-s0"), "Report and removal"), "Remove this run")
    assert len(find_runs(folder)) == 2


def test_nothing_is_lost_where_a_name_is_taken(folder: Path) -> None:
    interrupted(folder)
    remove("anbn-s0")
    shutil.rmtree(interrupted(folder).path / "checkpoints", ignore_errors=True)
    with pytest.raises(UserError, match="another one named anbn-s0"):
        _put_back("anbn-s0")
    remove("anbn-s0")
    assert _removed() == ["anbn-s0", "anbn-s0~2"]
    run = interrupted(folder)
    with locked(run.path), pytest.raises(UserError, match="stop it first"):
        remove("anbn-s0")


@pytest.mark.parametrize("page", ["runs", "heads", "try"])
def test_an_empty_folder_offers_to_train(page: str, folder: Path) -> None:
    shown = opened(page)
    assert "There is no run in" in said(shown)
    assert not shown.error


@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ("step 1\nlab: no space: free some\n", "no space: free some"),
        ("step 1\nlab: stopped; what is finished is kept\n", None),
        ("step 1\n", None),
    ],
)
def test_a_log_says_why(log: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert processes.fault(tmp_path / "log") == fault
