"""The page Dictionaries: kept answers, and those that it has trained itself."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from compared import plainly
from conftest import tiny_config, without_pictures
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, computed, healthy

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
    shown = healthy(page.run())
    assert len([*shown.success, *shown.error]) == 1


def said(page: AppTest) -> str:
    return "\n".join(plainly(each.value) for each in (*page.markdown, *page.info, *page.caption))


def test_scores_latents_and_facts_are_those_that_are_kept(page: AppTest, kept: Answer) -> None:
    shown = healthy(page.run())
    rows = kept.table[kept.table["width"] == 4]
    right, how, latents, facts = [frame.value for frame in shown.dataframe[:4]]
    tables = module.side_by_side(rows)
    assert right["F1"].tolist() == tables["right"]["F1"].tolist()
    assert how["L0"].tolist() == tables["how"]["L0"].tolist()
    assert kept.sentence in said(shown)
    own = [each for each in kept.findings["features"] if each["kind"] == "topk"]
    assert latents["latent"].tolist() == [each["latent"] for each in own]
    assert latents["words"].tolist() == [each["words"] for each in own]
    assert latents["off"].tolist() == pytest.approx([each["off"] for each in own], 0.01, 0.01, True)
    assert facts["variable"].tolist() == ["tokens", "tokens", "lead", "lead", "more a"]
    assert facts["made by"].tolist() == ["embed", "embed", "L0H0", "L0H0", "L0 mlp"]
    told = {each["fact"]: each for each in kept.findings["told"] if each["kind"] == "topk"}
    assert facts["fact"].tolist() == list(told)
    assert facts["latent"].tolist() == [each["latent"] for each in told.values()]
    assert any("--width 4 6 --seeds 2 --steps 5 --words 150" in each.value for each in shown.code)

    other = healthy(shown.segmented_control[0].set_value("batchtopk").run())
    own = [each for each in kept.findings["features"] if each["kind"] == "batchtopk"]
    assert other.dataframe[2].value["latent"].tolist() == [each["latent"] for each in own]
    fact = own[0]["fact"]
    one = healthy(other.selectbox(key="dictionary_fact_majority-10").set_value(fact).run())
    assert set(one.dataframe[2].value["fact"]) == {fact}

    wide = healthy(one.selectbox(key="dictionary_width_majority").set_value(6).run())
    rows = kept.table[kept.table["width"] == 6]
    tables = module.side_by_side(rows)
    claim, *_ = module.claims(replace(kept, table=rows))
    assert claim.short in said(wide)
    assert wide.dataframe[0].value["F1"].tolist() == tables["right"]["F1"].tolist()
    assert "Latents are kept of the first width alone, 4" in said(wide)


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
    assert shown.dataframe[0].value["kind"].tolist()[:2] == ["topk", "batchtopk"]
    frame = shown.dataframe[-1].value
    assert isinstance(frame, pd.DataFrame)
    assert set(frame["width"]) == {12}


def test_a_run_of_which_nothing_is_known_says_so(page: AppTest) -> None:
    page.query_params["run"] = "lines"
    assert "nothing is known of the state of words" in said(healthy(page.run()))
