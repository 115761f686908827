"""Checkpoints: weights as safetensors, and beside them a file that says what they are.

    step-000500/model.safetensors     the weights
    step-000500/config.json           the run's configuration, the step, the SHA-256 of the weights

Nothing is ever unpickled. Loading checks that the bytes are those that were written and that they
belong to this run. PyTorch is imported where weights are read or written: records need none.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError, safe_open

from models.config import TrainConfig
from models.errors import UserError
from models.languages import Vocabulary
from models.plain_files import plain_size, read_bytes
from models.runs.files import as_json, write_folder
from models.runs.records import CheckpointRecord, config_of, read_record

if TYPE_CHECKING:
    from torch import Tensor

    from models.base import LanguageModel

WEIGHTS, CONFIG = "model.safetensors", "config.json"
CURE = "put back the checkpoint, or train the run again"


def folder_name(step: int) -> str:
    """The checkpoint folder of a step: six digits, so that names sort like steps."""
    return f"step-{step:06d}"


def save_checkpoint(
    checkpoints: Path, model: LanguageModel, config: TrainConfig, step: int
) -> None:
    """Writes a checkpoint folder, whole or not at all. Raises UserError if it cannot be written."""
    write_folder(checkpoints / folder_name(step), checkpoint_files(model, config, step))


def checkpoint_files(model: LanguageModel, config: TrainConfig, step: int) -> dict[str, bytes]:
    """The files of a checkpoint folder by their names."""
    weights = packed({n: t.detach().cpu().contiguous() for n, t in model.state_dict().items()})
    about = {
        "step": step,
        "sha256": hashlib.sha256(weights).hexdigest(),
        "vocabulary": list(model.vocabulary.symbols),
        "config": asdict(config),
    }
    return {WEIGHTS: weights, CONFIG: as_json(about)}


def packed(tensors: dict[str, Tensor], about: dict[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file.

    Raises:
        MemoryError: there is too little of it; what the library raises then is no ``Exception``.
    """
    from safetensors.torch import save

    try:
        return save(tensors, about)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise MemoryError("no memory to write weights") from None


def load_checkpoint(
    folder: Path, config: TrainConfig, vocabulary: Vocabulary
) -> tuple[LanguageModel, str]:
    """The model of a checkpoint, in evaluation mode on the CPU, and the hash of its weights.

    Raises:
        UserError: the checkpoint is missing, truncated, altered, or from another run.
    """
    from models.base import build

    about = read_about(folder, config)
    weights, digest = read_weights(folder / WEIGHTS, CURE)
    if about["vocabulary"] != list(vocabulary.symbols):
        raise _foreign(folder, "vocabulary")
    check_hash(folder, about, digest)
    model = build(config.model, vocabulary, config.seed)
    try:
        model.load_state_dict(weights)
    except RuntimeError:
        raise UserError(
            f"{folder / WEIGHTS} does not fit this version of the lab: train the run again"
        ) from None
    return model.eval(), digest


def read_about(folder: Path, config: TrainConfig) -> CheckpointRecord:
    """The record of a checkpoint.

    Raises:
        UserError: it is missing or damaged, or of another step or run.
    """
    about = read_record(folder / CONFIG, CheckpointRecord, CURE)
    if about["step"] != int(folder.name.removeprefix("step-")):
        raise _foreign(folder, "step")
    # Compared as configurations, not as text: a field that the lab gained since is equal.
    if config_of(folder / CONFIG, about) != config:
        raise _foreign(folder, "config")
    return about


def _foreign(folder: Path, differs: str) -> UserError:
    """The error for a checkpoint of another run or step."""
    return UserError(
        f"{folder} belongs to another run (its {differs} differs from run.json): "
        "put back the right checkpoint, or train again"
    )


def check_hash(folder: Path, about: CheckpointRecord, digest: str) -> None:
    """Raises UserError where the weights of a checkpoint are not those that it speaks of."""
    if about["sha256"] != digest:
        raise UserError(
            f"{folder / WEIGHTS} is not the file that was written (its hash differs): "
            "put back the right checkpoint, or train again"
        )


def read_weights(path: Path, cure: str) -> tuple[dict[str, Tensor], str]:
    """Tensors and SHA-256 of a safetensors file.

    Args:
        cure: the cure if the file is missing or damaged; the end of the error's sentence.

    Raises:
        UserError: it is missing or damaged.
    """
    from safetensors.torch import load

    plain_size(path, cure, most=sys.maxsize)
    try:
        with safe_open(path, "pt"):  # a file that is not of the size it says is not read as a whole
            content = read_bytes(path, cure, most=sys.maxsize)
        tensors = load(content)
    except SafetensorError:
        raise UserError(f"{path} is truncated or damaged: {cure}") from None
    if any(tensor.is_complex() for tensor in tensors.values()):  # torch would drop a part of them
        raise UserError(f"{path} has complex numbers as weights: {cure}")
    return tensors, hashlib.sha256(content).hexdigest()
