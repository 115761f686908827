"""The saved state, from which training resumes bit for bit: weights and their average, Adam's
moments, the step."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

from pydantic import TypeAdapter, with_config
from safetensors import SafetensorError, safe_open
from torch import Tensor
from typing_extensions import TypedDict

from models.errors import UserError
from models.plain_files import plain_size
from models.runs.checkpoints import packed, read_weights
from models.runs.files import write_bytes
from models.runs.records import AS_WRITTEN, Step
from models.runs.run import Run
from models.training.trainer import Trainer

STATE = "training.safetensors"


@with_config(AS_WRITTEN)
class _About(TypedDict):
    """The record of a state, as JSON in the header of its file."""

    step: Step
    flawless: Step
    sha256: str


def save_state(trainer: Trainer) -> None:
    """Writes everything that the next step depends on, beside the run's record."""
    tensors = {f"model.{n}": t.detach() for n, t in trainer.model.state_dict().items()}
    if trainer.average is not None:
        tensors |= {f"average.{n}": t for n, t in trainer.average.state_dict().items()}
    for name, parameter in trainer.model.named_parameters():
        for key, value in trainer.moments[parameter].items():
            tensors[f"{key}.{name}"] = value
    # Copied: runs trained together share one count of steps, and a file refuses shared memory.
    tensors = {n: t.to("cpu", copy=True).contiguous() for n, t in tensors.items()}
    about: _About = {"step": trainer.step, "flawless": trainer.flawless, "sha256": ""}
    about["sha256"] = _digest(trainer.run, tensors, about)
    write_bytes(trainer.run.path / STATE, packed(tensors, {"about": json.dumps(about)}))


def _digest(run: Run, tensors: dict[str, Tensor], about: _About) -> str:
    """SHA-256 of everything that a state holds and of the run's configuration.

    The configuration is that of the run's record, without fields that the lab gained since then.
    """
    owner = json.dumps([about["step"], about["flawless"], run.record["config"]])
    return hashlib.sha256(packed(tensors) + owner.encode()).hexdigest()


def load_state(trainer: Trainer) -> None:
    """Puts the trainer back to the saved step.

    Raises:
        UserError: the state is damaged, or it is another run's.
    """
    path = trainer.run.path / STATE
    cure = "put back the file, or remove it, and training begins again at step 0"
    tensors, _ = read_weights(path, cure)
    try:
        about = _about(path)
        if about["sha256"] != _digest(trainer.run, tensors, about):
            raise ValueError("not the state that was written")
        parts: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            kind, rest = name.split(".", 1)
            parts.setdefault(kind, {})[rest] = tensor
        trainer.model.load_state_dict(parts.pop("model"))
        if trainer.average is not None:
            trainer.average.load_state_dict(parts.pop("average"))
        for name, parameter in trainer.model.named_parameters():
            trainer.moments[parameter] = {
                key: value[name].to(parameter.device)
                for key, value in parts.items()
                if parameter.requires_grad
            }
    except (KeyError, RuntimeError, TypeError, ValueError):
        raise UserError(f"{path} is damaged or another run's: {cure}") from None
    trainer.step, trainer.flawless = about["step"], about["flawless"]


def saved_step(run: Run) -> int:
    """The step from which training resumes: that of the saved state, or 0."""
    try:
        return _about(run.path / STATE)["step"]
    except (OSError, SafetensorError, TypeError, KeyError, ValueError, UserError):
        return 0  # if the state is damaged, training itself will say so


def _about(path: Path) -> _About:
    """The record of a state. Raises one of the errors that ``saved_step`` names."""
    plain_size(path, "remove it", sys.maxsize)
    with safe_open(path, framework="pt") as file:
        return TypeAdapter(_About).validate_json(file.metadata()["about"])
