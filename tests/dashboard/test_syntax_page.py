"""The page of trees says what the probes and the curve by depth say."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compared import plainly
from conftest import tiny_config
from few import of_few
from streamlit.testing.v1 import AppTest

from analyses.answers import fresh_answer
from dashboard import selection
from dashboard.background import JOBS
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

pytestmark = pytest.mark.slow
SCRIPT = 'from dashboard.pages import pages\npages()["syntax"].draw()'


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "question", of_few)
    monkeypatch.setattr("interp.probing.structural.STEPS", 10)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    known = replace(recipe("nested"), steps=10, max_n=9, model=tiny_config().model)
    train(Run.create(folder / "nested-s0", known), "cpu")
    train(Run.create(folder / "anbn-s0", tiny_config(steps=1)), "cpu")
    return folder


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, **query: str) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SCRIPT, default_timeout=120)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    JOBS.wait()
    page.run()
    assert not page.exception
    assert not page.error
    return [plainly(each.value) for each in (*page.markdown, *page.info)]


def sentence(folder: Path, name: str, **options: str) -> str:
    asked = of_few(name)
    return fresh_answer(Run(folder / "nested-s0"), asked, asked.options(**options)).sentence


def test_the_tree_is_probed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = sentence(folder, "syntax")
    assert said in opened(folder, monkeypatch, run="nested-s0")


def test_depths_are_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = sentence(folder, "depths")
    assert said in opened(folder, monkeypatch, run="nested-s0", syntax_of="how deep")


def test_what_depends_is_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = sentence(folder, "dependencies", symbols="lopen loopt")
    asked = {"syntax_of": "what depends on what", "depends_nested": "lopen loopt"}
    assert said in opened(folder, monkeypatch, run="nested-s0", **asked)


def test_a_language_without_trees_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = " ".join(opened(folder, monkeypatch, run="anbn-s0"))
    assert "anbn has no trees" in shown
