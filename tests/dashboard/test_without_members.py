"""The pages about a typed word, on a run without members in its window: a word can be typed."""

from __future__ import annotations

import sys

import pytest
from conftest import tiny_config
from streamlit.testing.v1 import AppTest

from analyses.options.parts import Patching
from analyses.questions.parts.patching import analyse
from models.errors import UserError
from models.languages import RegularLanguage
from models.runs.run import Run
from models.training.loop import train

SHOW = 'from dashboard.pages import pages\npages()["{page}"].draw()'


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the time when such windows were not refused: (10)* has no word of one symbol."""
    config = tiny_config(language="tomita2", max_n=1, steps=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RegularLanguage, "positive_lengths", lambda self, lengths: [*lengths])
        made = Run.create(tmp_path_factory.mktemp("runs") / "none-s0", config)
    train(made, "cpu")
    return made


def test_a_word_that_is_given_is_taken(run: Run) -> None:
    with pytest.raises(UserError, match=r"no member up to size 1 .*: give a word$"):
        analyse(run, Patching())
    assert analyse(run, Patching(word="1 0", pairs=1)).findings["word"] == ["1", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["try", "patching", "heads"])
def test_the_field_of_the_word_is_there(
    run: Run, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["app.py", str(run.path.parent)])
    shown = AppTest.from_string(SHOW.format(page=page), default_timeout=120).run()
    assert not shown.exception
    assert shown.text_input[0].value == ""
    assert not any("cannot be shown" in error.value for error in shown.error)
    shown.text_input[0].set_value("1 0").run()
    assert not shown.exception
    assert not any("unknown" in error.value or "give" in error.value for error in shown.error)
