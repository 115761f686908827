"""What fails on a page is one line beside what works; what is computed outlives its page."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest
from conftest import tiny_config, without_pictures
from parts import part
from streamlit.testing.v1 import AppTest
from test_pages import SHOW, computed, drawn, said

from analyses.answers import Answers, answer, question
from dashboard.background import JOBS, KEPT
from dashboard.markup import message
from models.errors import UserError
from models.runs.files import is_locked, locked, write_json
from models.runs.run import Run

PART = """
import streamlit as st
from dashboard.drawing import explain_errors
with explain_errors():
    st.markdown("before")
    {}["found"]
st.markdown("after")
"""
OFFER = """
import streamlit as st
from dashboard.background import offer
from dashboard.drawing import explain_errors
from test_guard import WORK
with explain_errors():
    offer("work", "Ask it now", WORK[0])
st.markdown("after")
"""
WORK: list[object] = []
"""What the page ``OFFER`` has computed."""


def opened(name: str, **link: str) -> AppTest:
    page = AppTest.from_string(SHOW.format(page=name), default_timeout=120)
    for key, value in link.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception
    return page


@pytest.fixture
def run(trained: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of which nothing was asked, which the pages show."""
    monkeypatch.setattr(sys, "argv", ["app.py", str(trained.path.parent)])
    return trained


# -- what fails ---------------------------------------------------------------------------------


def test_what_fails_is_one_line_and_its_traceback_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        page = AppTest.from_string(PART).run()
    assert not page.exception
    (error,) = page.error
    assert "KeyError" in error.value
    assert "Traceback" not in error.value
    assert "\n" not in error.value
    assert [each.value for each in page.markdown] == ["before", "after"]
    assert "Traceback" in caplog.text


@pytest.mark.parametrize(
    ("name", "remains", "words"),
    [
        ("model", "Where the compute goes", "The parts' shares by length."),
        ("heads", "All heads and parts", "Accuracy lost per ablated head."),
    ],
)
def test_a_bad_symbol_leaves_the_rest_of_the_page(
    run: Run, name: str, remains: str, words: str
) -> None:
    if name == "heads":
        with without_pictures():
            answer(run, name, question(name).brief)
    page = opened(name, word_anbn="a x b")
    assert ["unknown symbol 'x'" in error.value for error in page.error] == [True]
    assert drawn(part(page, remains), words)
    assert name == "heads" or len(page.dataframe) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("record", [[], {}, {"status": "finished", "config": 3}])
def test_a_damaged_run_leaves_the_others_and_the_pages_that_need_none(
    run: Run, record: object
) -> None:
    (run.path.parent / "another").mkdir()
    write_json(run.path.parent / "another" / "run.json", record)
    page = opened("runs")
    assert page.selectbox(key="run").value == "another"
    assert part(page, "All runs").dataframe[0].value["run"].tolist() == ["another", "run"]
    assert len(page.error) == 1
    assert not opened("sweeps").error
    page.selectbox(key="run").set_value("run").run()
    assert not page.exception
    assert not page.error
    assert len(part(page, "Training").get("vega_lite_chart"))
    assert not page.error


# -- while a run is trained -----------------------------------------------------------------------


@pytest.mark.slow
def test_home_knows_whether_a_training_goes_on_has_died_or_has_ended(run: Run) -> None:
    run.update(status="training")
    page = opened("runs")
    assert "was interrupted" in page.warning[0].value
    with locked(run.path):
        page.run()
        assert not page.warning
        assert not page.error
    run.update(status="finished")
    page.run()
    assert not page.warning
    assert not page.error


@pytest.mark.parametrize("name", ["try", "model", "probing", "heads", "leaderboard", "discovery"])
def test_a_run_without_a_checkpoint_is_no_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.create(tmp_path / "run", tiny_config())
    monkeypatch.setattr(sys, "argv", ["app.py", str(tmp_path)])
    page = opened(name)
    assert not page.error
    assert "has no checkpoint yet" in page.info[-1].value


def test_whether_a_lock_is_held_is_known(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []  # asking leaves nothing behind
    with locked(tmp_path / "run"):
        assert is_locked(tmp_path / "run")
    (tmp_path / ".run.lab-lock").touch()  # left behind by a process that was killed
    assert not is_locked(tmp_path / "run")


# -- in the background ----------------------------------------------------------------------------


@pytest.fixture
def go() -> Iterator[Event]:
    """Lets the work of the page ``OFFER`` end."""
    event = Event()
    yield event
    event.set()
    JOBS.wait()


def test_two_tabs_share_one_computation_that_outlives_them(go: Event) -> None:
    begun = []

    def work(report: object) -> None:
        begun.append(1)
        assert callable(report)
        report(1, 4, "a quarter")
        go.wait(60)

    WORK[:] = [work]
    first = AppTest.from_string(OFFER).run()
    first.button[0].click().run()
    other = AppTest.from_string(OFFER).run()  # another tab, or the same page opened again
    for page in (first.run(), other):
        assert [button.label for button in page.button] == ["Stop"]
        assert [bar.proto.text.split(";")[0] for bar in page.get("progress")] == ["a quarter"]
        assert [each.value for each in page.markdown] == ["after"]
    assert begun == [1]
    go.set()
    JOBS.wait()
    assert [button.label for button in other.run().button] == ["Ask it now"]


@pytest.mark.parametrize(
    ("share", "seconds", "left"),
    [
        (0.25, 30, "; about 90 s left"),
        (0.25, 600, "; about 30 min left"),
        (0.02, 30, ""),
        (0.25, 1, ""),
    ],
)
def test_the_time_that_is_left_is_told(
    go: Event, monkeypatch: pytest.MonkeyPatch, share: float, seconds: float, left: str
) -> None:
    def work(report: Callable[[int, int, str], None]) -> None:
        report(int(100 * share), 100, "")
        go.wait(60)

    job = JOBS.begin(f"{share} in {seconds} s", work)
    while job.share != share:
        job.wait(0.01)
    monkeypatch.setattr("dashboard.background.time.monotonic", lambda: job._began + seconds)
    assert job.left == left


def test_work_is_stopped(go: Event) -> None:
    ended = []

    def work(report: Callable[[int, int, str], None]) -> None:
        report(1, 4, "a quarter")
        go.wait(60)
        report(2, 4, "a half")
        ended.append(1)

    WORK[:] = [work]
    page = AppTest.from_string(OFFER).run()
    page.button[0].click().run()
    page.button[0].click().run()
    go.set()
    JOBS.wait()
    page.run()
    assert [button.label for button in page.button] == ["Ask it now"]
    assert not page.error
    assert not ended


@pytest.mark.parametrize("left", [True, False])
def test_what_nobody_waits_for_ends(left: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A word's answer is not kept on the disk: whoever left its page does not want it."""
    monkeypatch.setattr("dashboard.background.AT_ONCE", 0.0)
    monkeypatch.setattr("dashboard.background.LEFT", 0.0 if left else 60.0)
    go, key = Event(), f"word {left}"

    def work(report: Callable[[int, int, str], None]) -> str:
        go.wait(60)
        report(0, 1, "")
        return "found"

    job = JOBS.begin(key, work, lasting=False)
    go.set()
    job.wait()
    assert job.result == (None if left else "found")
    page = AppTest.from_string(AT_ONCE.format(key=key)).run()
    if left:
        assert page.info[0].value == "This was stopped before it was done."
        page.button[0].click().run()  # it is asked again
        JOBS.wait()
        page.run()
    assert [each.value for each in page.markdown] == ["again" if left else "found"]


AT_ONCE = """
import streamlit as st
from dashboard.background import at_once
st.markdown(at_once("{key}", lambda told: "again"))
"""


def test_ended_work_does_not_fill_the_memory() -> None:
    for number in range(KEPT + 5):
        JOBS.begin(number, lambda report: None).wait()
    assert JOBS.get(0) is None
    assert JOBS.get(KEPT + 4) is not None


def test_work_that_fails_says_so_and_can_be_tried_again(go: Event) -> None:
    def work(report: object) -> None:
        raise UserError("no space: free some")

    WORK[:] = [work]
    page = AppTest.from_string(OFFER).run()
    page.button[0].click().run()
    JOBS.wait()
    page.run()
    assert [error.value for error in page.error] == [message("no space: free some")]
    WORK[:] = [lambda report: None]
    page.button[0].click().run()
    JOBS.wait()
    assert not page.run().error


@pytest.mark.slow
def test_a_question_is_answered_without_its_page(run: Run) -> None:
    with without_pictures():
        page = opened("runs")
        (button,) = (each for each in page.button if each.label == "Ask it now")
        page = computed(button.click())
    kept = Answers(run.path, "accuracy").latest()
    assert kept is not None
    assert kept.verdict.short in said(page)
    assert kept.sentence in said(part(page, "Controls and limits"))
