"""The page of vectors draws the map, answers an analogy, and says how often they are right."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compared import plainly
from conftest import tiny_config, without_pictures
from few import of_few
from parts import part
from streamlit.testing.v1 import AppTest

from analyses.answers import answer, fresh_answer
from analyses.questions.inside import vectors as of_words
from dashboard import selection
from dashboard.background import JOBS
from models.languages import ContextFreeLanguage
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

pytestmark = pytest.mark.slow
SCRIPT = 'from dashboard.pages import pages\npages()["vectors"].draw()'


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "question", of_few)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    known = replace(recipe("nested"), steps=10, max_n=9, model=tiny_config().model)
    train(Run.create(folder / "nested-s0", known), "cpu")
    train(Run.create(folder / "anbn-s0", tiny_config(steps=1)), "cpu")
    return folder


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SCRIPT, default_timeout=120)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    JOBS.wait()
    page.run()
    assert not page.exception
    assert not page.error
    return page


def test_an_analogy_is_answered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"vectors_a_nested": "loopt", "vectors_b_nested": "lopen", "vectors_c_nested": "ziet"}
    page = opened(folder, monkeypatch, run="nested-s0", vectors_kind="PPMI + SVD", **words)
    run = Run(folder / "nested-s0")
    assert isinstance(run.language, ContextFreeLanguage)
    own = of_words.vectors_of(run, of_words.text_of(run, 2000, 0), 16, 2, 0)["PPMI + SVD"]
    table = of_words.nearest(run.language, own, "loopt", "lopen", "ziet")
    said = " ".join(plainly(each.value) for each in page.markdown)
    assert f"`loopt` is to `lopen` as `ziet` is to `{table['word'].iloc[0]}`" in said
    assert page.dataframe[0].value["word"].tolist() == table["word"].tolist()


def sentence(run: Path, name: str) -> str:
    asked = of_few(name)
    return fresh_answer(Run(run), asked, asked.options()).sentence


def test_scores_are_those_of_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="nested-s0", vectors_of="how often right")
    said = sentence(folder / "nested-s0", "vectors")
    assert any(said in plainly(each.value) for each in page.markdown)
    part(page, "Numbers, files, code")
    assert any("lab analyse" in each.value and "vectors" in each.value for each in page.code)


def test_senses_are_told_apart(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(recipe("linear"), steps=5, max_n=9, model=tiny_config().model)
    train(Run.create(folder / "linear-s0", known), "cpu")
    page = opened(folder, monkeypatch, run="linear-s0", vectors_of="two senses")
    said = sentence(folder / "linear-s0", "senses")
    assert any(said in plainly(each.value) for each in page.markdown)


def said_of_probing(page: AppTest) -> bool:
    return any("Probing was asked already" in each.value for each in page.markdown)


def test_while_it_is_computed_there_is_what_a_probe_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.background.AT_ONCE", 0.0)
    monkeypatch.setattr("interp.probing.pooling.STEPS", 10)
    train(Run.create(folder / "waits", tiny_config(language="dyck1", steps=1, max_n=9)), "cpu")
    with without_pictures():
        answer(Run(folder / "waits"), "probing", of_few("probing").options())
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SCRIPT, default_timeout=120)
    page.query_params["run"] = "waits"
    page.run()
    assert not page.exception
    assert said_of_probing(page)
    JOBS.wait()


def test_whole_words_are_those_of_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries learn for few steps here, for both: ``test_pooling`` asks what they learn."""
    monkeypatch.setattr("interp.probing.pooling.STEPS", 10)
    config = tiny_config(language="dyck2", steps=1, max_n=9)
    train(Run.create(folder / "dyck2-s0", config), "cpu")
    page = opened(folder, monkeypatch, run="dyck2-s0")
    # The words of this language have no classes.
    assert page.segmented_control(key="vectors_of").options == ["whole words"]
    assert not said_of_probing(page)
    said = sentence(folder / "dyck2-s0", "sentences")
    assert any(said in plainly(each.value) for each in page.markdown)
    part(page, "Numbers, files, code")
    assert any("lab analyse" in each.value and "sentences" in each.value for each in page.code)
