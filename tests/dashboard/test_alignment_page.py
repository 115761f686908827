"""The page of alignment shows a pair, the answer over many, and how right targets are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compared import plainly
from conftest import tiny_config, tiny_of
from streamlit.testing.v1 import AppTest
from test_pages import drawn

from analyses.answers import answer, fresh_answer, question
from analyses.questions.behaviour import in_context
from analyses.questions.parts import one_pair
from dashboard.background import JOBS
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow
SCRIPT = 'from dashboard.pages import pages\npages()["alignment"].draw()'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    config = tiny_config(model=tiny_of("encoder-decoder"), language="sort", max_n=6)
    train(Run.create(folder / "sort-s0", config), "cpu")
    train(Run.create(folder / "anbn-s0", tiny_config(steps=1)), "cpu")
    config = tiny_config(language="in-context", objective="sequence-to-sequence", max_n=2)
    train(Run.create(folder / "in-context-s0", config), "cpu")
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
    return page


def told(page: AppTest) -> list[str]:
    return [plainly(each.value) for each in page.markdown]


def test_a_typed_source_gets_its_target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="sort-s0")
    page.text_input[0].set_value("d a c").run()
    assert not page.error
    assert "The right pair is `d a c > a c d`." in told(page)
    run = Run(folder / "sort-s0")
    expected = one_pair.one_pair(run, tuple("dac>acd"))
    assert page.dataframe[0].value.shape[0] == len(expected)
    page.text_input[0].set_value("d x").run()
    assert "unknown symbol 'x'" in plainly(page.error[0].value)


def test_the_answer_over_many_pairs_is_that_of_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = answer(Run(folder / "sort-s0"), "alignment")
    page = opened(folder, monkeypatch, run="sort-s0", pairs_of="over many pairs")
    assert not page.error
    assert any(found.sentence in each for each in told(page))


def sentence(run: Path, name: str, **options: str) -> str:
    asked = question(name)
    return fresh_answer(Run(run), asked, asked.options(**options)).sentence


@pytest.mark.parametrize("by", ["length", "place"])
def test_targets_are_those_of_the_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    names = {"length": "length of the source", "place": "place in the target"}
    query = {"pairs_of": "how right", "targets_by": names[by]}
    page = opened(folder, monkeypatch, run="sort-s0", **query)
    assert not page.error
    assert sentence(folder / "sort-s0", "targets", by=by) in told(page)


def test_another_language_is_told_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="anbn-s0")
    assert "anbn has no pairs of a source and a target" in plainly(page.info[0].value)


def test_prompts_are_shown_beside_bayes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(folder / "in-context-s0")
    page = opened(folder, monkeypatch, run="in-context-s0")
    assert sentence(run.path, "in-context") in told(page)
    page = opened(folder, monkeypatch, run="in-context-s0", prompts_of="without each head")
    assert sentence(run.path, "induction") in told(page)
    page = opened(folder, monkeypatch, run="in-context-s0", prompts_of="one prompt")
    page.text_input[0].set_value("a 1 b 2 a").run()
    assert not page.error
    expected = in_context.one_prompt(run, (*"a1b2a", ">"))
    assert max(map(len, drawn(page, "What is answered to a 1 b 2 a >"))) == len(expected)
    page.text_input[0].set_value("a 1 b 1 a").run()
    assert "is no prompt" in plainly(page.error[0].value)
