"""Checkpoints: weights as safetensors, and beside them a file that says what they are.

    step-000500/model.safetensors     the weights
    step-000500/config.json           the run's configuration, the step, the SHA-256 of the weights

Nothing is ever unpickled. Loading checks that the bytes are those that were written and that they
belong to this run.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from models.base import LanguageModel, build
from models.config import TrainConfig
from models.errors import UserError
from models.languages import Vocabulary
from models.runs.files import as_json, read_json, write_folder

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def folder_name(step: int) -> str:
    """The checkpoint folder of a step: six digits, so that names sort like steps."""
    return f"step-{step:06d}"


def save_checkpoint(
    checkpoints: Path, model: LanguageModel, config: TrainConfig, step: int
) -> None:
    """Writes a checkpoint folder, whole or not at all. Raises UserError if it cannot be written."""
    weights = save({name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()})
    about = {
        "step": step,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "vocabulary": list(model.vocabulary.symbols),
        "config": asdict(config),
    }
    files = {WEIGHTS: weights, CONFIG: as_json(about)}
    write_folder(checkpoints / folder_name(step), files)


def load_checkpoint(
    folder: Path, config: TrainConfig, vocabulary: Vocabulary
) -> tuple[LanguageModel, str]:
    """The model of a checkpoint, in evaluation mode on the CPU, and the hash of its weights.

    Raises:
        UserError: the checkpoint is missing, truncated, altered, or from another run.
    """
    about = read_json(folder / CONFIG)
    if not isinstance(about, dict):
        raise UserError(f"{folder / CONFIG} is damaged: put back the file, or train the run again")
    weights, digest = read_weights(folder / WEIGHTS)
    expected: dict[str, Any] = {
        "step": int(folder.name.removeprefix("step-")),
        "vocabulary": list(vocabulary.symbols),
        "config": config,
    }
    # Compared as configurations, not as text: a field that the lab gained since is equal in both.
    about["config"] = TrainConfig.from_dict(about.get("config") or {})
    for key, value in expected.items():
        if about.get(key) != value:
            raise UserError(
                f"{folder} belongs to another run (its {key} differs from run.json): "
                "put back the right checkpoint, or train again"
            )
    if about.get("sha256") != digest:
        raise UserError(
            f"{folder / WEIGHTS} is not the file that was written (its hash differs): "
            "put back the right checkpoint, or train again"
        )
    model = build(config.model, vocabulary, config.seed)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(
            f"{folder / WEIGHTS} does not fit this version of the lab: train the run again"
        ) from None
    return model.eval(), digest


def read_weights(path: Path) -> tuple[dict[str, Tensor], str]:
    """Tensors and SHA-256 of a safetensors file. Raises UserError if it is missing or damaged."""
    try:
        content = path.read_bytes()
        return load(content), hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise UserError(
            f"cannot read {path} ({error.strerror}): train again, or check the path"
        ) from None
    except SafetensorError:
        raise UserError(
            f"{path} is truncated or damaged: put back the file, or train the run again"
        ) from None
