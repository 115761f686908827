"""The saved state, from which training resumes bit for bit: weights, Adam's moments, the step."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from models.errors import UserError
from models.runs.checkpoints import read_weights
from models.runs.files import write_bytes
from models.runs.run import Run
from models.training.trainer import Trainer

STATE = "training.safetensors"


def save_state(trainer: Trainer) -> None:
    """Writes everything that the next step depends on, beside the run's record."""
    tensors = {f"model.{n}": t.detach() for n, t in trainer.model.state_dict().items()}
    for name, parameter in trainer.model.named_parameters():
        for key, value in trainer.moments[parameter].items():
            tensors[f"{key}.{name}"] = value
    # Copied: runs trained together share one count of steps, and a file refuses shared memory.
    tensors = {n: t.to("cpu", copy=True).contiguous() for n, t in tensors.items()}
    about: dict[str, Any] = {"step": trainer.step, "flawless": trainer.flawless}
    about["sha256"] = _digest(trainer.run, tensors, about)
    write_bytes(trainer.run.path / STATE, save(tensors, {"about": json.dumps(about)}))


def _digest(run: Run, tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
    """SHA-256 of everything that a state holds and of the run's configuration.

    The configuration is that of the run's record, without fields that the lab gained since then.
    """
    owner = json.dumps([about["step"], about["flawless"], run.record["config"]])
    return hashlib.sha256(save(tensors) + owner.encode()).hexdigest()


def load_state(trainer: Trainer) -> None:
    """Puts the trainer back to the saved step.

    Raises:
        UserError: the state is damaged, or it is another run's.
    """
    path = trainer.run.path / STATE
    tensors, _ = read_weights(path)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    try:
        about = json.loads(metadata["about"])
        if about["sha256"] != _digest(trainer.run, tensors, about):
            raise ValueError("not the state that was written")
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, rest = name.split(".", 1)
            parts.setdefault(kind, {})[rest] = tensor
        trainer.model.load_state_dict(parts.pop("model"))
        for name, parameter in trainer.model.named_parameters():
            trainer.moments[parameter] = {
                key: value[name].to(parameter.device) for key, value in parts.items()
            }
    except (KeyError, RuntimeError, TypeError, ValueError):
        raise UserError(
            f"{path} is damaged or another run's: train this run again in another folder"
        ) from None
    trainer.step, trainer.flawless = about["step"], about["flawless"]


def saved_step(run: Run) -> int:
    """The step from which training resumes: that of the saved state, or 0."""
    try:
        with safe_open(run.path / STATE, framework="pt") as file:
            return int(json.loads(file.metadata()["about"])["step"])
    except (FileNotFoundError, SafetensorError, KeyError, TypeError, ValueError):
        return 0  # if the state is damaged, training itself will say so
