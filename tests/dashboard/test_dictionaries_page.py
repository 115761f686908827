"""The page Dictionaries: kept answers, and those that it has trained itself."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from compared import plainly
from conftest import tiny_config, without_pictures
from parts import part
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, computed, drawn, healthy

from analyses.answers import Answer, answer
from analyses.options.inside import Dictionary
from analyses.questions.inside import dictionary as module
from dashboard.views.look_inside import dictionaries as view
from models.plants.plant import plant, write
from models.runs.run import Run
from models.training.loop import train

KEPT = Dictionary(width=(4, 6), seeds=2, steps=5, words=150, kinds=("topk", "batchtopk"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write(plant("majority-10"), folder / "majority")
    corpus = tmp_path_factory.mktemp("corpus") / "words.tsv"
    corpus.write_text(
        "".join(f"{'AB'[n % 2]}\t{'x y '[n % 2 * 2 :]}{'x ' * n}z\n" for n in range(20))
    )
    config = tiny_config(language="words", objective="verdict", steps=1)
    train(Run.create(folder / "lines", config, corpus), "cpu")
    return folder


@pytest.fixture
def kept(folder: Path) -> Answer:
    with without_pictures():
        return answer(Run(folder / "majority"), "dictionary", KEPT)[0]


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SHOW.format(page="dictionaries"), default_timeout=60)
    page.query_params["run"] = "majority"
    return page


def test_the_verdict_on_a_line_of_a_corpus_is_that_of_its_label(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page Try it: a corpus knows the labels of its lines, and no rule."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SHOW.format(page="try"), default_timeout=60)
    page.query_params["run"] = "lines"
    page.query_params["word_words"] = "y x z"
    verdict = said(healthy(page.run()))
    assert verdict.count("The model says: **") == 1
    assert verdict.count("That is right.") + verdict.count("That is wrong.") == 1


def said(page: AppTest) -> str:
    return "\n".join(plainly(each.value) for each in (*page.markdown, *page.info, *page.caption))


def assert_drawn(page: AppTest, rows: pd.DataFrame, measure: str) -> None:
    """Every value of a measure, beside those of the control; chance may be a line of its own."""
    of = rows[(rows["measure"] == measure) & (rows["model"] != module.CHANCE)].dropna(
        axis=0, subset="value"
    )
    shown, *_ = drawn(page, f"{measure} of the dictionaries by kind.")
    for column in ("kind", "model"):
        assert shown[column].tolist() == of[column].tolist()
    assert shown["value"].tolist() == pytest.approx(of["value"].tolist())


def test_scores_latents_and_facts_are_those_that_are_kept(page: AppTest, kept: Answer) -> None:
    shown = healthy(page.run())
    rows = kept.table[kept.table["width"] == 4]
    for measure in set(rows["measure"]):
        assert_drawn(shown, rows, measure)
    assert kept.sentence in said(part(shown, "Controls and limits"))
    latents, facts = [frame.value for frame in part(shown, "Latents").dataframe]
    own = [each for each in kept.findings["features"] if each["kind"] == "topk"]
    assert latents["latent"].tolist() == [each["latent"] for each in own]
    assert latents["words"].tolist() == [each["words"] for each in own]
    assert latents["off"].tolist() == pytest.approx([each["off"] for each in own], 0.01, 0.01, True)
    assert facts["variable"].tolist() == ["tokens", "tokens", "lead", "lead", "more a"]
    assert facts["made by"].tolist() == ["embed", "embed", "L0H0", "L0H0", "L0 mlp"]
    told = {each["fact"]: each for each in kept.findings["told"] if each["kind"] == "topk"}
    assert facts["fact"].tolist() == list(told)
    assert facts["latent"].tolist() == [each["latent"] for each in told.values()]
    part(shown, "Numbers, files, code")
    assert any("--width 4 6 --seeds 2 --steps 5 --words 150" in each.value for each in shown.code)

    other = healthy(part(shown, "Latents").segmented_control[0].set_value("batchtopk").run())
    own = [each for each in kept.findings["features"] if each["kind"] == "batchtopk"]
    assert other.dataframe[0].value["latent"].tolist() == [each["latent"] for each in own]
    fact = own[0]["fact"]
    one = healthy(other.selectbox(key="dictionary_fact_majority-10").set_value(fact).run())
    assert set(one.dataframe[0].value["fact"]) == {fact}

    wide = healthy(one.selectbox(key="dictionary_width_majority").set_value(6).run())
    rows = kept.table[kept.table["width"] == 6]
    claim, *_ = module.claims(replace(kept, table=rows))
    assert claim.short in said(wide)
    assert "Latents are kept of the first width alone, 4" in said(wide)
    assert_drawn(wide, rows, "F1")


def test_what_was_never_asked_is_trained_at_a_click(
    page: AppTest, kept: Answer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page asks as the command without options does: each finds the other's answer."""
    asked: list[Dictionary] = []

    def quick(run: Run, name: str, options: Dictionary, told: object) -> object:
        asked.append(options)
        with without_pictures():
            return answer(run, name, replace(KEPT, width=options.width, active=2))

    monkeypatch.setattr(view, "answer", quick)
    first = healthy(page.run())
    first.selectbox(key="dictionary_width_majority").set_value(12)
    offered = healthy(first.selectbox(key="dictionary_active_majority").set_value(2).run())
    assert "have not been trained for majority yet" in said(offered)
    assert not offered.dataframe
    shown = computed(offered.button[-1].click())
    assert asked == [Dictionary(active=2)]
    (measured, *_) = drawn(shown, "F1 of the dictionaries by kind.")
    assert measured["kind"].tolist()[:2] == ["topk", "batchtopk"]
    frame = part(shown, "Numbers, files, code").dataframe[-1].value
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["width"]) == {12}


def test_a_run_of_which_nothing_is_known_says_so(page: AppTest) -> None:
    page.query_params["run"] = "lines"
    assert "nothing is known of the state of words" in said(healthy(page.run()))
