"""A file of a run that was edited, cut off or brought from elsewhere is told in one line.

It stops nobody but its own run.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import tiny_config
from safetensors.numpy import save

from analyses.rules.record import FOLDER, RECORD, kept, names
from analyses.studies.listing import runs_of
from analyses.studies.seeds import _settings, chosen, siblings
from models.errors import UserError
from models.runs.checkpoints import CONFIG, WEIGHTS, folder_name
from models.runs.folders import RUN_FILE
from models.runs.run import CORPUS, METRICS, Run
from models.training.loop import train
from models.training.state import STATE, saved_step

Damage = Callable[[Path], object]


def edited(**changes: Any) -> Damage:
    """run.json with other values, by dotted name; None takes the field away."""

    def damage(path: Path) -> None:
        record = json.loads((path / RUN_FILE).read_text())
        for name, value in changes.items():
            *outer, last = name.split("__")
            inner = record
            for each in outer:
                inner = inner[each]
            inner[last] = value
            if value is None:
                del inner[last]
        (path / RUN_FILE).write_text(json.dumps(record))

    return damage


def written(name: str, content: bytes) -> Damage:
    return lambda path: (path / name).write_bytes(content)


def folder_instead(name: str) -> Damage:
    def damage(path: Path) -> None:
        (path / name).unlink(missing_ok=True)
        (path / name).mkdir()

    return damage


LAST = f"checkpoints/{folder_name(12)}"
OF_THE_RECORD: dict[str, Damage] = {
    "empty": written(RUN_FILE, b""),
    "binary": written(RUN_FILE, os.urandom(64)),
    "a list": written(RUN_FILE, b"[1, 2]"),
    "deep": written(RUN_FILE, b'{"status": ' + b"[" * 50_000),
    "no status": edited(status=None),
    "another status": edited(status="lost"),
    "a list for the language": edited(config__language=["anbn"]),
    "an unknown language": edited(config__language="klingon"),
    "a float for heads": edited(config__model__n_heads=2.5),
    "a text for the seed": edited(config__seed="0"),
    "no steps at the end": edited(steps=None),
    "sessions": edited(sessions="many"),
}
OF_METRICS: dict[str, Damage] = {
    "no line": written(METRICS, b"\n"),
    "without step": written(METRICS, b'{"loss": 1.0}\n'),
    "binary": written(METRICS, b"\xff\xfe\x00\n"),
    "huge step": written(METRICS, b'{"step": 1' + b"0" * 40 + b"}\n"),
    "a folder": folder_instead(METRICS),
}
OF_THE_CORPUS: dict[str, Damage] = {
    "a folder": folder_instead(CORPUS),
    "binary": written(CORPUS, b"\xff\xfe"),
    "one label": written(CORPUS, b"in\ta b\n"),
}
OF_A_CHECKPOINT: dict[str, Damage] = {
    "no record": lambda path: (path / LAST / CONFIG).unlink(),
    "list": written(f"{LAST}/{CONFIG}", b"[]"),
    "no hash": written(f"{LAST}/{CONFIG}", b'{"step": 12, "vocabulary": [], "config": {}}'),
    "no weights": lambda path: (path / LAST / WEIGHTS).unlink(),
    "half": lambda path: os.truncate(path / LAST / WEIGHTS, 100),
    "another file": written(f"{LAST}/{WEIGHTS}", save({})),
    "a folder": folder_instead(f"{LAST}/{WEIGHTS}"),
    "of another step": lambda path: shutil.copytree(
        path / "checkpoints" / folder_name(0), path / LAST, dirs_exist_ok=True
    ),
}
ONE_LINE = re.compile(r"[^\n]+: [^\n]+")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run.create(tmp_path_factory.mktemp("whole") / "run", tiny_config())
    train(run, device="cpu")
    return run


@pytest.fixture
def trained(whole: Run, tmp_path: Path) -> Run:
    """A finished tiny run, trained once and copied for each test."""
    return Run(Path(shutil.copytree(whole.path, tmp_path / "runs" / "run")))


def beside(run: Run) -> Run:
    """The same run, under another name and seed."""
    other = Run(Path(shutil.copytree(run.path, run.path.with_name("other"))))
    edited(config__seed=1)(other.path)
    for file in other.checkpoints.glob(f"*/{CONFIG}"):
        about = json.loads(file.read_text())
        about["config"]["seed"] = 1
        file.write_text(json.dumps(about))
    return other


@pytest.mark.parametrize("name", OF_THE_RECORD)
def test_a_damaged_run_is_named_and_stops_no_other(trained: Run, name: str) -> None:
    other = beside(trained)
    OF_THE_RECORD[name](trained.path)
    table = runs_of(trained.path.parent).set_index("run")
    assert table.loc["other", "status"] == "finished"
    fault = str(table.loc[trained.name, "status"])
    assert ONE_LINE.fullmatch(fault)
    assert len(fault) < 700
    assert [run.name for run in siblings(other)] == ["other"]
    runs, notes = chosen(other.path)
    assert [run.name for run in runs] == ["other"]
    if name != "an unknown language":  # such a run can be opened; it is of another language
        assert notes == [f"without {trained.name}: {fault}"]


@pytest.mark.parametrize("name", OF_METRICS)
def test_damaged_metrics_can_be_removed_as_is_said(trained: Run, name: str) -> None:
    OF_METRICS[name](trained.path)
    with pytest.raises(UserError, match=rf"^[^\n]*{METRICS} [^\n]*: remove it \(the run is whole"):
        trained.metrics()
    assert METRICS in runs_of(trained.path.parent).iloc[0]["status"]
    if (trained.path / METRICS).is_dir():
        (trained.path / METRICS).rmdir()
    else:
        (trained.path / METRICS).unlink()
    assert trained.metrics() == []
    row = runs_of(trained.path.parent).iloc[0]
    assert (row["status"], row["step"]) == ("finished", trained.record["steps"])
    assert "right verdicts" not in trained._repr_html_()


@pytest.mark.parametrize("name", OF_THE_CORPUS)
def test_a_damaged_corpus_stops_no_other_run(trained: Run, name: str) -> None:
    other = beside(trained)
    OF_THE_CORPUS[name](trained.path)
    with pytest.raises(UserError, match=rf"^[^\n]*({CORPUS}|anbn)[^\n]*: [^\n]*$"):
        print(_settings(trained), trained.language)
    assert [run.name for run in siblings(other)] == ["other"]
    status = dict(zip(*(runs_of(trained.path.parent)[c] for c in ("run", "status")), strict=True))
    assert status["other"] == "finished"
    assert ONE_LINE.fullmatch(status[trained.name])


def test_a_run_that_ends_while_it_is_looked_at_is_not_interrupted(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(path: Path) -> bool:
        Run(path).update(status="finished")
        return False

    trained.update(status="training")
    assert runs_of(trained.path.parent).iloc[0]["status"] == "interrupted"
    monkeypatch.setattr("analyses.studies.listing.is_locked", ends)
    assert runs_of(trained.path.parent).iloc[0]["status"] == "finished"


@pytest.mark.parametrize("name", OF_A_CHECKPOINT)
def test_a_damaged_checkpoint_is_named(trained: Run, name: str) -> None:
    OF_A_CHECKPOINT[name](trained.path)
    with pytest.raises(UserError, match=rf"^[^\n]*{LAST}[^\n]*: [^\n]*$|belongs to another run"):
        trained.model()


def test_folders_that_are_no_checkpoints_are_passed_over(trained: Run) -> None:
    steps = trained.steps()
    for name in ("step-", "step-12", "step-" + "9" * 200, "step-٠٠٠٠٠٣", "step-000009.old"):
        (trained.checkpoints / name).mkdir()
    (trained.checkpoints / "step-000011").write_text("no folder")
    assert trained.steps() == steps


@pytest.mark.parametrize(
    "damage",
    [
        written(STATE, b""),
        written(STATE, os.urandom(300)),
        written(STATE, save({})),
        written(STATE, save({}, {"about": "[1]"})),
        written(STATE, save({}, {"about": '{"step": 2.5, "flawless": 0, "sha256": ""}'})),
        folder_instead(STATE),
    ],
    ids=["empty", "binary", "foreign", "list", "float", "folder"],
)
def test_a_damaged_state_can_be_removed_as_is_said(trained: Run, damage: Damage) -> None:
    """Training then begins again and ends with the same bits."""
    before = trained.model_hash()
    trained.update(status="training")
    damage(trained.path)
    assert saved_step(trained) == 0
    with pytest.raises(UserError, match=rf"^[^\n]*{STATE} [^\n]*remove it, and training begins"):
        train(trained, "cpu")
    if (trained.path / STATE).is_dir():
        (trained.path / STATE).rmdir()
    else:
        (trained.path / STATE).unlink()
    train(trained, "cpu")
    assert trained.model_hash() == before


LEARNING = {"name": "x", "status": "learning", "doing": "", "networks": [], "options": {}}


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "null",
        '{"status": "finished"}',
        json.dumps(LEARNING | {"networks": [3]}),
        json.dumps(LEARNING | {"status": "finished"}),
    ],
)
def test_a_damaged_record_of_a_learning_stops_no_other(tmp_path: Path, content: str) -> None:
    for name, text in (("bad", content), ("good", json.dumps(LEARNING))):
        (tmp_path / FOLDER / name).mkdir(parents=True)
        (tmp_path / FOLDER / name / RECORD).write_text(text)
    assert names(tmp_path) == ["bad", "good"]
    assert kept(tmp_path, "good") == LEARNING
    with pytest.raises(UserError, match=rf"^[^\n]*{RECORD} [^\n]*: move [^\n]*$"):
        kept(tmp_path, "bad")


def test_a_run_of_a_changed_seed_is_another(tmp_path: Path) -> None:
    """``edited`` does what the tests above rely on."""
    run = Run.create(tmp_path / "run", tiny_config())
    edited(config__seed=5)(run.path)
    assert Run(run.path).config.seed == 5
