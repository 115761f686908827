"""The page "From lines to a rule" without a browser: uploads, learners, damaged records.

The learner's process is not started: its command is noted, and run here where a test needs it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import streamlit as st
from drawn import read_json
from streamlit.testing.v1 import AppTest
from test_pages import said

from analyses.command_line.app import main
from analyses.rules.lines import as_tsv
from analyses.rules.record import LINES, RECORD
from dashboard.views.discover import from_lines
from models.languages import printed_lines
from models.runs.files import locked, write_json

PAGE = """
from dashboard.drawing import explain_errors
from dashboard.views.discover import from_lines
with explain_errors():
    from_lines.show()
"""
GROUPS, WORDS = zip(*printed_lines(), strict=True)
PRINTED = as_tsv(GROUPS, WORDS).encode()
TURNED = as_tsv(["B" if group == "A" else "A" for group in GROUPS], WORDS).encode()


class Ended:
    """A process that ended with status 1. It stays so after its test: a thread may still ask."""

    def poll(self) -> int:
        return 1

    wait = poll


class Learners(list[list[str]]):
    """The commands that a page has started; each process has ended already."""

    def __call__(self, command: list[str], **_: object) -> Ended:
        self.append(command[3:])
        return Ended()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Learners:
    learners = Learners()
    monkeypatch.setattr("dashboard.processes.Popen", learners)
    return learners


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.argv", ["app.py", str(tmp_path)])
    return tmp_path / "discoveries"


def opened() -> AppTest:
    page = AppTest.from_string(PAGE, default_timeout=60).run()
    assert not page.exception
    return page


def press(page: AppTest, label: str) -> None:
    (button,) = (each for each in page.button if each.label == label)
    button.click().run()
    assert not page.exception


def upload(name: str, content: bytes) -> AppTest:
    page = opened()
    page.selectbox(key="corpus").set_value("A new corpus").run()
    page.file_uploader[0].set_value((name, content, "text/plain")).run()
    assert not page.exception
    return page


@pytest.mark.usefixtures("folder")
def test_the_reader_says_which_columns_are_which(started: Learners) -> None:
    """The file has columns that nothing names, and letters that are written together."""
    rows = [",".join(["id", "who", "Verdict", "Utterance"])]
    rows += [f"{n},me,{group},{''.join(word)}" for n, (group, word) in enumerate(printed_lines())]
    page = upload("lines.csv", "\n".join(rows).encode())
    assert "has 4 columns" in page.error[0].value
    page.text_input[0].set_value("verdict").run()
    assert "has 4 columns" in page.error[0].value  # one alone is no choice
    page.text_input[1].set_value("utterance")
    page.toggle[0].set_value(True).run()
    assert not page.error
    assert page.dataframe[0].value["line"][0] == " ".join("".join(printed_lines()[0][1]))
    press(page, "Discover the rule")
    assert len(started) == 1


def learn(name: str, content: bytes) -> AppTest:
    page = upload(name, content)
    assert not page.error
    press(page, "Discover the rule")
    return page


def choose(page: AppTest, name: str) -> AppTest:
    page.selectbox(key="corpus").set_value(name).run()
    assert not page.exception
    return page


@pytest.mark.slow
def test_a_file_named_as_the_readme_names_it_is_learned(folder: Path, started: Learners) -> None:
    page = learn("lines.tsv", PRINTED.partition(b"\n")[2])  # no header
    (command,) = started
    assert page.selectbox(key="corpus").value == "lines"
    assert main([*command, "--no-rivals"]) == 0
    assert read_json(folder / "lines" / RECORD)["status"] == "finished"
    page.run()
    assert "#### A line is A if it is one or more leeuw, then one or more olifant" in said(page)


def test_one_of_three_labels_is_held_against_the_others(folder: Path, started: Learners) -> None:
    lines = "".join(f"{'xyz'[n % 3]}\t{'xyz'[n % 3]} {'a ' * n}\n" for n in range(30))
    page = upload("mine.tsv", lines.encode())
    (labels,) = page.segmented_control
    assert labels.options == ["x", "y", "z"]
    labels.set_value("y").run()
    press(page, "Discover the rule")
    _, *kept = (folder / "mine" / LINES).read_text().splitlines()
    assert [line.split("\t")[0] for line in kept] == ["y"] * 10 + ["not y"] * 20
    assert len(started) == 1


@pytest.mark.slow
def test_lines_of_a_taken_name_get_another_and_known_lines_are_opened(
    folder: Path, started: Learners
) -> None:
    learn("mine.tsv", PRINTED)
    assert main([*started[0], "--no-rivals"]) == 0
    before = {path.name: path.read_bytes() for path in (folder / "mine").iterdir()}
    page = learn("mine.tsv", TURNED)
    assert page.selectbox(key="corpus").value == "mine-2"
    assert len(started) == 2
    page = learn("mine.tsv", PRINTED)
    assert page.selectbox(key="corpus").value == "mine"
    assert len(started) == 2  # nothing is learned twice
    assert "No network was asked for a rule." in said(page)
    assert {path.name: path.read_bytes() for path in (folder / "mine").iterdir()} == before
    (folder.parent / "other-s0").mkdir()  # a run of this name would be in the way
    assert learn("other.tsv", PRINTED).selectbox(key="corpus").value == "other-2"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"yes\ta b\nno a\n", "mine.tsv, line 2: expected one tab"),
        (b"\xff\xfe\x00", "mine.tsv: not UTF-8"),
        (b"yes\ta b\n" * 30, "mine.tsv: all lines have the label yes"),
    ],
)
def test_a_bad_upload_leaves_the_good_file_of_its_name(
    folder: Path, started: Learners, content: bytes, fault: str
) -> None:
    learn("mine.tsv", PRINTED)
    page = upload("mine.tsv", content)
    (error,) = page.error
    assert error.value.replace("\\", "").startswith(fault)  # shown as text, not as Markdown
    assert "\n" not in error.value
    assert (folder / "mine" / LINES).read_bytes() == PRINTED
    assert [path.name for path in folder.iterdir()] == ["mine"]
    assert len(started) == 1


def test_go_on_after_a_command_line_that_was_interrupted(folder: Path, started: Learners) -> None:
    """With its options, and with the notes on its lines, which its own lines no longer show."""
    options = {"lines": "gone.tsv", "accepted": None, "networks": 2, "rivals": False, "seed": 3}
    record = {"name": "mine", "status": "learning", "doing": "mine-s0: step 50", "networks": []}
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / LINES).write_bytes(PRINTED)
    write_json(folder / "mine" / RECORD, record | {"options": options, "notes": ["a note"]})
    page = choose(opened(), "mine")
    assert "did not finish" in page.warning[0].value
    press(page, "Go on")
    assert main(started[0]) == 0
    after = read_json(folder / "mine" / RECORD)
    assert after["status"] == "finished"
    assert after["notes"] == ["a note"]
    assert after["options"] | {"lines": "gone.tsv"} == after["options"] | options | {
        "lines": "gone.tsv"
    }


def test_a_learner_of_another_process_is_watched_not_doubled(
    folder: Path, started: Learners
) -> None:
    page = learn("mine.tsv", PRINTED)
    with locked(folder / "mine"):
        page.run()
        assert [info.value for info in page.info] == ["starting"]
        assert not page.button
        assert not page.warning
    page.run()
    assert [button.label for button in page.button] == ["Go on", "Remove this corpus"]
    assert len(started) == 1


def test_a_learner_that_failed_says_why(folder: Path, started: Learners) -> None:
    learn("mine.tsv", PRINTED)
    (folder / "mine" / ".lab-log").write_text("learning\nlab: no GPU here\n")
    page = choose(opened(), "mine")
    assert [error.value for error in page.error] == ["no GPU here"]
    assert [button.label for button in page.button] == ["Go on", "Remove this corpus"]


@pytest.mark.slow
def test_a_damaged_record_is_one_line_and_the_others_are_shown(
    folder: Path, started: Learners, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(from_lines, "_studies", lambda: st.header("what stands below"))
    learn("good.tsv", PRINTED)
    assert main([*started[0], "--no-rivals"]) == 0
    good = read_json(folder / "good" / RECORD)
    damages = {
        "list": [],
        "text": "no record",
        "no-found": {key: value for key, value in good.items() if key != "found"},
        "no-status": good | {"status": None},
        "no-network": good | {"networks": [{}]},
        "no-ways": good | {"ways": [1]},
        "lines": good | {"labels": ["A"]},
        "no-dfa": good | {"found": good["found"] | {"dfa": {"start": 0}}},
        "run": good | {"run": 5},
    }
    for name, damage in damages.items():
        (folder / name).mkdir()
        write_json(folder / name / RECORD, damage)
    (folder / "folder" / RECORD).mkdir(parents=True)
    page = opened()
    for name in (*damages, "folder"):
        (error,) = choose(page, name).error
        assert "\n" not in error.value
        assert [header.value for header in page.header] == ["what stands below"]
    assert "No network was asked for a rule." in said(choose(page, "good"))
    assert not page.error
