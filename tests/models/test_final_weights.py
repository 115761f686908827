"""Which weights a run ends with: their moving average, against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import tiny_config
from safetensors.torch import load_file
from torch import Tensor

from models.errors import UserError
from models.model_config import ModelConfig
from models.runs.run import METRICS, Run
from models.training.evaluation import judge
from models.training.loop import train
from models.training.state import STATE
from models.training.together import can_train_together
from models.training.trainer import Trainer
from models.training.writer import validation_sample

AVERAGED: dict[str, Any] = {"average": 0.8}


class KilledError(Exception):
    pass


def make(path: Path, killed_at: int | None = None, **changes: Any) -> Run:
    """A trained run, or one that was killed at a step and resumed."""
    run = Run.create(path, tiny_config(**changes))

    def kill(step: int, value: float | None) -> None:
        if step == killed_at:
            raise KilledError

    if killed_at is not None:
        with pytest.raises(KilledError):
            train(run, "cpu", kill)
        run = Run(path)
    train(run, "cpu")
    return run


def bits(run: Run) -> dict[str, Any]:
    """All that a run ends with, but for names and times."""
    files = [*run.checkpoints.glob("step-*/model.safetensors"), run.path / STATE]
    content: dict[str, Any] = {str(f.relative_to(run.path)): f.read_bytes() for f in files}
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in run.metrics()]
    record = {k: v for k, v in run.record.items() if k not in ("name", "seconds", "sessions")}
    return content | {METRICS: lines, "record": record}


def weights(path: Path) -> dict[str, Tensor]:
    """The weights in training of a saved state, by name."""
    tensors = load_file(path / STATE).items()
    return {n.removeprefix("model."): t for n, t in tensors if n.startswith("model.")}


# -- the average ----------------------------------------------------------------------------------


def test_checkpoints_hold_the_moving_average(tmp_path: Path) -> None:
    """By its definition, in float64, over the weights of a training without it."""
    run = make(tmp_path / "averaged", **AVERAGED)
    plain = Trainer.at_start(Run.create(tmp_path / "plain", tiny_config()), torch.device("cpu"))
    mean: dict[str, Tensor] = {}
    for step in range(1, 13):
        plain.advance()
        now = {n: p.detach().double() for n, p in plain.model.named_parameters()}
        mean = {n: 0.8 * mean.get(n, p) + 0.2 * p for n, p in now.items()}
        if step in run.steps():
            for name, value in run.model(step).named_parameters():
                torch.testing.assert_close(value.double(), mean[name], rtol=1e-6, atol=1e-7)
    in_training = weights(run.path)
    for name, value in plain.model.state_dict().items():
        assert torch.equal(in_training[name], value), name
    assert run.steps() == [0, 1, 2, 5, 10, 12]


def test_the_average_is_judged(tmp_path: Path) -> None:
    run = make(tmp_path / "run", **AVERAGED)
    *_, value = judge(
        run.model(), run.language, validation_sample(run.language, run.config), run.objective
    )
    assert run.metrics()[-1]["validation_loss"] == value


def test_runs_with_an_average_train_one_by_one() -> None:
    assert not can_train_together(tiny_config(**AVERAGED))


@pytest.mark.parametrize(
    "changes",
    [
        {"model": ModelConfig(architecture="ngram")},
        {"tuned": "lora", "parent": "0" * 64},
        {"tuned": "subspace", "parent": "0" * 64},
    ],
    ids=["ngram", "lora", "subspace"],
)
def test_what_has_no_average_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=r"^average is for models [^\n]*$"):
        tiny_config(average=0.5, **changes)


# -- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [2, 3, 7, 11, 12])
@pytest.mark.parametrize("changes", [AVERAGED], ids=["averaged"])
def test_killed_and_resumed_it_ends_with_the_same_bits(
    tmp_path: Path, changes: dict[str, Any], step: int
) -> None:
    whole, resumed = make(tmp_path / "a", **changes), make(tmp_path / "b", step, **changes)
    assert bits(whole) == bits(resumed)
