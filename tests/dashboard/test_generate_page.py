"""The page that generates shows what the decoders make, and how right it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from compared import plainly
from conftest import tiny_config
from parts import part
from streamlit.testing.v1 import AppTest

from analyses.answers import fresh_answer, question
from analyses.questions.behaviour.generated import (
    beam_chart,
    beam_steps,
    claims,
    decoders,
    generator,
)
from dashboard.background import JOBS
from models.decoding.choice import Choice
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe

pytestmark = pytest.mark.slow
SCRIPT = 'from dashboard.pages import pages\npages()["generate"].draw()'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    known = replace(recipe("anbn"), steps=40, max_n=4)
    train(Run.create(folder / "anbn-s0", known), "cpu")
    train(Run.create(folder / "deaf", tiny_config(objective="verdict", steps=1)), "cpu")
    return folder


def opened(folder: Path, monkeypatch: pytest.MonkeyPatch, **query: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SCRIPT, default_timeout=60)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception
    return page


def said(page: AppTest) -> list[str]:
    return [plainly(each.value) for each in page.markdown]


def test_the_words_are_those_of_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="anbn-s0", temperature="2.0", prompt_anbn="a a")
    assert not page.error
    made = generator(Run(folder / "anbn-s0"), 8, ("a", "a")).sample(12, Choice(temperature=2.0))
    (table,) = page.dataframe
    assert table.value["word"].tolist() == [" ".join(each.word) for each in made.words]
    captions = " ".join(plainly(each.value) for each in page.caption)
    assert "--temperature 2" in captions
    assert "--prompt 'a a'" in captions
    page.text_input(key="prompt_anbn").set_value("a x").run()
    assert "unknown symbol 'x'" in plainly(page.error[0].value)


def test_decoders_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="anbn-s0", generated="decoders compared")
    JOBS.wait()
    page.run()
    (claim,) = claims(decoders(Run(folder / "anbn-s0")))
    assert f"#### {claim.short}" in said(page)
    assert claim.sentence in said(part(page, "Controls and limits"))
    assert len(part(page, "Numbers, files, code").dataframe) == 1
    assert not page.error


def test_a_beam_is_drawn_step_by_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="anbn-s0", generated="a beam search")
    table = beam_steps(Run(folder / "anbn-s0"), 3)
    assert beam_chart(table).to_dict()["layer"]
    ended = table[table["kept"] & table["ended"]].sort_values("score", ascending=False)
    (best,) = generator(Run(folder / "anbn-s0")).beam(3).words[:1]
    assert ended["word"].iloc[0] == " ".join(best.word)
    assert f"The best word so far is `{ended['word'].iloc[0]}`" in " ".join(said(page))
    last = int(table["step"].max())
    page.slider(key=f"beam_step_{last}").set_value(1).run()
    assert not page.exception


def test_the_loss_stands_beside_its_floor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="anbn-s0", generated="how close to the language")
    JOBS.wait()
    page.run()
    asked = question("perplexity")
    sentence = fresh_answer(Run(folder / "anbn-s0"), asked, asked.options()).sentence
    assert sentence in said(part(page, "Controls and limits"))
    part(page, "Numbers, files, code")
    assert any("lab analyse" in each.value and "perplexity" in each.value for each in page.code)
    assert not page.exception


def test_what_knows_no_next_symbol_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = opened(folder, monkeypatch, run="deaf")
    assert "taught verdicts alone" in plainly(page.info[0].value)
    assert not page.dataframe
