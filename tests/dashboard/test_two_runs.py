"""Two runs side by side: the same choices, each with its own numbers, and each as if alone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from compared import plainly
from conftest import made_once, tiny_config, without_pictures
from parts import part
from streamlit.testing.v1 import AppTest
from test_kinds import TASKS
from test_pages import SHOW, drawn

from analyses.answers import Answers, answer
from dashboard.controls import SECOND
from models.runs.run import Run
from models.training.loop import train

pytestmark = pytest.mark.slow
ASKED = ("probing", "heads", "accuracy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds, each asked the same."""

    def make(folder: Path) -> None:
        for seed in (0, 1):
            run = Run.create(folder / f"anbn-s{seed}", tiny_config(steps=6, seed=seed))
            train(run, "cpu")
            with without_pictures():
                for name in ASKED:
                    answer(run, name, TASKS[name][1])

    return made_once(tmp_path_factory, "two-runs", make)


def opened(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, **link: str) -> AppTest:
    monkeypatch.setattr(sys, "argv", ["app.py", str(folder)])
    page = AppTest.from_string(SHOW.format(page=name), default_timeout=60)
    for key, value in link.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception
    assert SECOND not in page.session_state
    return page


def said(page: AppTest) -> list[str]:
    return [plainly(each.value) for each in page.markdown]


@pytest.mark.parametrize("name", ["heads", "probing"])
def test_each_says_what_it_says_alone(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(folder, name, monkeypatch, run="anbn-s0", **{"with": "anbn-s1"})
    found = [Answers.of(Run(folder / f"anbn-s{seed}"), name).latest() for seed in (0, 1)]
    texts = [text for text in said(page) if text.startswith("#### ")]
    assert texts == [f"#### {each.verdict.short}" for each in found if each is not None]
    assert [text for text in said(page) if text.startswith("**anbn-s")] == [
        "**anbn-s0, step 6**",
        "**anbn-s1, step 6**",
    ]


def test_a_choice_is_made_once_and_holds_for_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(folder, "try", monkeypatch, run="anbn-s0", **{"with": "anbn-s1"})
    (word,) = page.text_input
    word.set_value("A, a b").run()  # as people write it
    assert not page.exception
    tables = drawn(part(page, "What may follow"), "Probability of every next token")
    both = [table for table in tables if "probability" in table]
    assert len({tuple(table["place"]) for table in both}) == 1
    probabilities = {tuple(table["probability"].round(6)) for table in both}
    assert len(probabilities) == 2  # two networks
    assert set(both[0]["place"]) == {"0 <bos>", "1 a", "2 a", "3 b"}


def test_the_same_run_at_two_steps(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = {"with": "anbn-s0", "other_step_of_anbn-s0": "0", "word_anbn": "a b"}
    page = opened(folder, "try", monkeypatch, run="anbn-s0", **link)
    assert [text for text in said(page) if text.startswith("**anbn-s")] == [
        "**anbn-s0, step 6**",
        "**anbn-s0, step 0**",
    ]
    tables = drawn(part(page, "What may follow"), "Probability of every next token")
    assert len({tuple(t["probability"].round(6)) for t in tables if "probability" in t}) == 2


def test_a_run_does_not_stand_beside_itself(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was not asked yet offers to be asked, once."""
    train(Run.create(tmp_path / "anbn-s0", tiny_config(steps=6)), "cpu")
    page = opened(tmp_path, "heads", monkeypatch, run="anbn-s0", **{"with": "anbn-s0"})
    assert [text for text in said(page) if text.startswith("**anbn-s")] == ["**anbn-s0, step 6**"]
    assert any(each.value.startswith("Both are the same.") for each in page.info)
    assert not page.error


def test_a_run_without_a_checkpoint_leaves_the_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(Run.create(tmp_path / "anbn-s0", tiny_config(steps=6)), "cpu")
    Run.create(tmp_path / "anbn-s1", tiny_config(seed=1))
    page = opened(tmp_path, "try", monkeypatch, run="anbn-s0", **{"with": "anbn-s1"})
    assert drawn(part(page, "What may follow"), "Probability of every next token")
    assert ["has no checkpoint yet" in error.value for error in page.error] == [True]


def test_a_run_that_is_not_there_cannot_stand_beside(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = opened(folder, "heads", monkeypatch, **{"with": "nobody"})
    assert page.warning[0].value.startswith("There is no run named nobody to be set")
    assert len([text for text in said(page) if text.startswith("#### ")]) == 1
