"""A sweep on a GPU: seeds of one configuration train at once, and are runs like any others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from analyses.options.studies import Sweep
from analyses.studies.sweeps import run as sweeps
from analyses.studies.sweeps.file import read
from analyses.studies.sweeps.plan import Planned, plan
from analyses.studies.sweeps.run import _groups, _on_gpu, sweep
from models.runs.run import Run

FILE = """
question = "Does it?"
languages = ["an", "anbn"]
seeds = 3
[test]
windows = 2
count = 4
hard = false
[fixed]
max_n = 4
steps = 12
batch_size = 8
evaluate_every = 4
"model.d_model" = 8
"model.n_heads" = 2
"model.d_mlp" = 8
[vary]
"model.architecture" = ["transformer", "lstm"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(FILE)
    return path


def planned(file: Path) -> list[Planned]:
    return plan(read(file))[0]


def test_groups_differ_in_the_seed_alone_and_lose_no_run(file: Path) -> None:
    runs = planned(file)
    found = _groups(runs, 2)
    assert sorted(run.name for group in found for run in group) == sorted(r.name for r in runs)
    for group in found:
        assert len({(run.config.language, run.config.model) for run in group}) == 1
        assert len({run.config.seed for run in group}) == len(group) <= 2
    sizes = {
        kind: sorted(len(g) for g in found if g[0].config.model.architecture == kind)
        for kind in ("transformer", "lstm")
    }
    assert sizes == {"transformer": [1, 1, 2, 2], "lstm": [1] * 6}  # nothing stacks an LSTM


def test_one_by_one_each_run_is_its_own_job(file: Path) -> None:
    runs = planned(file)
    assert _groups(runs, 1) == [[run] for run in runs]


def test_a_gpu_is_where_the_workers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for there in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert _on_gpu(Sweep("seeds")) == there
        assert not _on_gpu(Sweep("seeds", device="cpu"))
        assert not _on_gpu(Sweep("seeds", scheduler="tcp://far:1"))
        assert _on_gpu(Sweep("seeds", scheduler="tcp://far:1", device="cuda"))


@pytest.mark.slow
def test_runs_trained_at_once_are_those_of_a_sweep_one_by_one(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(FILE.replace('"an", ', ""))
    alone = sweep(Sweep(str(file), out=tmp_path / "alone", workers=1, device="cpu"))
    monkeypatch.setattr("analyses.studies.sweeps.run._on_gpu", lambda asked: True)
    called = []
    together = sweeps.trained_together
    monkeypatch.setattr(
        sweeps, "trained_together", lambda c, d: called.append(len(c)) or together(c, d)
    )
    result = sweep(Sweep(str(file), out=tmp_path / "together", workers=1, device="cpu"))
    assert called == [3]
    keys = ["run", "length", "n", "count", "window", "steps"]
    assert result.table[keys].equals(alone.table[keys])
    for run in planned(file):
        one, other = (Run(tmp_path / folder / run.name) for folder in ("alone", "together"))
        assert one.config == other.config == run.config
        assert len(other.record["sessions"]) == 1
        for name, value in other.model().state_dict().items():
            torch.testing.assert_close(
                value, one.model().state_dict()[name], rtol=1e-2, atol=1e-4, msg=name
            )
    # Nothing is trained twice.
    sweep(Sweep(str(file), out=tmp_path / "together", workers=1, device="cpu"))
    assert called == [3]
