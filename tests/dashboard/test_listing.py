"""The list of runs is read once, and anew when a run comes, goes, trains on or is asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard import listing
from models.config import TrainConfig
from models.runs.files import locked
from models.runs.run import METRICS, Run

LINE = {"loss": 1.0, "validation_loss": 1.0, "exact": 0.0, "recognition": 0.5}
LINE |= {"learning_rate": 0.1, "seconds": 1.0}


def evaluated(run: Run, step: int) -> None:
    with (run.path / METRICS).open("a") as file:
        file.write(json.dumps({"step": step, **LINE}) + "\n")


def test_the_list_is_read_again_only_when_a_file_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []
    real = listing.runs_of
    monkeypatch.setattr(listing, "runs_of", lambda folder: (reads.append(folder), real(folder))[1])
    first = Run.create(tmp_path / "a", TrainConfig(language="anbn"))
    assert list(listing.listed(tmp_path)["run"]) == ["a"]
    listing.listed(tmp_path)
    assert len(reads) == 1
    second = Run.create(tmp_path / "b", TrainConfig(language="anbn", seed=1))
    assert list(listing.listed(tmp_path)["run"]) == ["a", "b"]
    evaluated(first, 10)
    evaluated(first, 20)
    assert list(listing.listed(tmp_path)["step"]) == [20, 0]
    first.update(status="diverged", steps=20, seconds=1.0)
    assert list(listing.listed(tmp_path)["status"]) == ["diverged", "interrupted"]
    with locked(second.path):  # no file of the run tells
        assert list(listing.listed(tmp_path)["status"]) == ["diverged", "training"]
    second.path.rename(tmp_path / ".gone")
    assert list(listing.listed(tmp_path)["run"]) == ["a"]
    assert len(reads) == 5


def test_an_answer_changes_the_state_of_its_own_question(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "a", TrainConfig(language="anbn"))
    run.results.mkdir()
    before = {name: listing._state_of(tmp_path, name) for name in ("accuracy", "heads")}
    (run.results / "accuracy-1").mkdir()
    kept = listing._state_of(tmp_path, "accuracy")
    assert kept != before["accuracy"]
    heads = listing._state_of(tmp_path, "heads")
    (run.results / "accuracy-1" / "accuracy.json").write_text("{}")
    assert listing._state_of(tmp_path, "accuracy") != kept
    assert listing._state_of(tmp_path, "heads") == heads
