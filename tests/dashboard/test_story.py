"""The first page: it tells what the kept answers say, also where they say no."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from compared import plainly
from conftest import made_once, tiny_config, without_pictures
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Button
from test_kinds import TASKS

from analyses.answers import Answers, answer, scorecard
from dashboard.views.start.story import STEPS
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that saw so few lines that nobody can find a rule in it."""

    def make(folder: Path) -> None:
        config = tiny_config(language="dieren", objective="verdict", max_n=10)
        run = Run.create(folder / "dieren-s0", replace(config, steps=3))
        train(run, "cpu")
        with without_pictures():
            answer(run, "discovery", TASKS["discovery"][1])

    return made_once(tmp_path_factory, "story", make)


def opened(runs: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(runs)])
    script = 'from dashboard.pages import pages\npages()["story"].draw()'
    page = AppTest.from_string(script, default_timeout=60)
    page.query_params["show"] = step
    page.run()
    assert not page.exception
    assert not page.error
    return page


def said(page: AppTest) -> str:
    shown = [*page.markdown, *page.caption, *page.info, *page.header]
    return "\n".join(plainly(each.value) for each in shown)


def test_it_says_what_was_found_and_not_what_is_true(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Answers.of(Run(folder / "dieren-s0"), "discovery").latest()
    assert found is not None
    assert "leeuw ... olifant ... leeuw" not in found.findings["headline"]
    page = opened(folder, "the rule", monkeypatch)
    assert found.verdict.short in said(page)
    assert found.findings["evidence"] not in said(page)  # it stands on the page of the question
    share = found.findings["untrained"]["agreement_truth"]
    assert f"before its training gives {share:.1%}" in said(
        opened(folder, "the automaton", monkeypatch)
    )
    assert "of 26 by their own groups" in said(opened(folder, "the network", monkeypatch))


def test_a_network_that_was_not_asked_is_not_said_to_be_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "dieren-s0"
    shutil.copytree(folder / "dieren-s0", copy)
    shutil.rmtree(copy / "results")
    shown = said(opened(tmp_path, "the rule", monkeypatch))
    assert f"It has not been asked for its rule yet: `lab analyse {copy}`" in shown
    shutil.rmtree(copy)
    assert "No network in this folder" in said(opened(tmp_path, "the rule", monkeypatch))


def shows(page: AppTest) -> list[Button]:
    """The buttons that lead on."""
    return [each for each in page.button if each.label.startswith("Show ")]


def test_four_steps_lead_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, STEPS[0], monkeypatch)
    for step in STEPS[1:]:
        (on,) = shows(page)
        assert on.label == f"Show {step}"
        on.click().run()
    assert not shows(page)
    groups = [each.value for each in page.markdown if each.value.startswith("1. ")]
    marked = [line.removeprefix("1. ") for lines in groups for line in lines.split("\n")]
    first = marked[0]  # leeuw olifant slang leeuw muis ...
    assert first.startswith(":orange-background[**leeuw**] :orange-background[**olifant**] slang :")
    assert first.count("orange-background") == 3
    broken = ":orange-background[**~~olifant~~**] muis"
    (tenth,) = [line for line in marked if line.startswith(broken)]
    assert tenth.count("background") == 1  # no way leads back
    assert [each.value for each in page.caption if "keep the rule." in each.value] == [
        "13 of 13 lines keep the rule.",
        "0 of 13 lines keep the rule.",
    ]
    (decides,) = [each.value for each in page.caption if "decides between" in each.value]
    assert "olifant muis muis leeuw kanarie olifant kanarie kat leeuw slang" in decides


def test_the_chosen_run_has_a_card_with_grades(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = scorecard(Run(folder / "dieren-s0")).to_dict("records")
    page = opened(folder, STEPS[0], monkeypatch)
    assert row["grade"] != "holds"
    assert page.expander[0].label.startswith("What the lenses say of dieren-s0: open it when")
    for part in (row["finding"], row["grade"]):
        assert part in said(page)
    assert row["why"] in [plainly(each.proto.help) for each in page.markdown]


def test_the_best_grade_comes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grades = ["not weighed", "fragile", "no better than its controls", "holds"]
    rows = pd.DataFrame({"question": "heads", "finding": grades, "grade": grades, "why": "so"})
    monkeypatch.setattr("dashboard.views.start.story.scorecard", lambda _: rows)
    page = opened(folder, STEPS[0], monkeypatch)
    shown = [each.value for each in page.markdown if each.value in grades]
    assert shown == ["holds", "fragile", "no better than its controls", "not weighed"]


def test_a_folder_without_such_a_run_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "`lab demo dieren`" in opened(tmp_path, "the rule", monkeypatch).info[0].value
