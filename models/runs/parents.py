"""Weights to start from: those of another run, kept in the folder of the run that goes on.

    parent.safetensors     the weights
    parent.json            the run that they come from: its configuration, step and symbols

The parent itself may be moved or removed. Symbols that both languages have keep their vectors; new
ones begin as in any training.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

import torch

from models.base import EmbeddingModel, LanguageModel
from models.config import TrainConfig
from models.errors import UserError
from models.languages import FIRST_SYMBOL_ID, Vocabulary
from models.plain_files import read_bytes
from models.runs.checkpoints import CURE as OF_CHECKPOINT
from models.runs.checkpoints import WEIGHTS, check_hash, read_about, read_weights
from models.runs.files import as_json
from models.runs.records import CheckpointRecord, read_record

PARENT, ABOUT = "parent.safetensors", "parent.json"
CURE = "put back the file, or begin the fine-tuning again"
MOST_BYTES = 2**31
BY_TOKEN = {"embed.weight", "unembed.linear.weight", "unembed.linear.bias"}
"""Tensors with one row for each token."""


def files_of(
    name: str, parent: TrainConfig, checkpoint: Path, config: TrainConfig
) -> dict[str, bytes]:
    """The files that a run keeps of the one that it goes on from.

    Args:
        name: the name of the parent.
        parent: the parent's configuration.
        checkpoint: the folder of its weights.
        config: the new run's configuration; its ``parent`` is the hash of these weights.

    Raises:
        UserError: the parent's checkpoint is damaged, or cannot be gone on from.
    """
    if config.model.family.tabular:
        raise UserError(f"{name} has no weights but counts: fine-tune another kind of model")
    if config.model.family.whole:
        raise UserError(
            f"{name} has no embedding that another language could share: fine-tune another kind of "
            "model"
        )
    if config.model != replace(parent.model, output=config.model.output):
        raise UserError(
            f"a fine-tuned model has the shape of its parent {name}: leave the options --model... "
            "out"
        )
    about = read_about(checkpoint, parent)
    if config.parent != about["sha256"]:
        raise UserError(f"{name} has other weights than those that were asked for")
    check_hash(checkpoint, about, read_weights(checkpoint / WEIGHTS, OF_CHECKPOINT)[1])
    weights = read_bytes(checkpoint / WEIGHTS, OF_CHECKPOINT, most=sys.maxsize)
    return {PARENT: weights, ABOUT: as_json({**about, "config": asdict(parent)})}


def check_subspace(model: LanguageModel, config: TrainConfig) -> None:
    """Raises UserError where the directions of a subspace would not fit in memory."""
    count = sum(parameter.numel() for parameter in model.parameters())
    if config.tuned == "subspace" and 4 * count * config.rank > MOST_BYTES:
        raise UserError(
            f"a subspace of {config.rank} dimensions of {count:,} weights takes more than 2 GiB: "
            f"choose a --rank of at most {MOST_BYTES // (4 * count)}"
        )


def start_from(folder: Path, model: EmbeddingModel) -> None:
    """Gives a new model the weights that its run's folder keeps of the parent, in place.

    Raises:
        UserError: they are missing or damaged, or do not fit.
    """
    about = read_record(folder / ABOUT, CheckpointRecord, CURE)
    weights, digest = read_weights(folder / PARENT, CURE)
    if digest != about["sha256"]:
        raise UserError(f"{folder / PARENT} is not the file that was written: {CURE}")
    old, new = Vocabulary(tuple(about["vocabulary"])), model.vocabulary
    shared = [token for token in new.tokens if token in old.ids]
    rows = [new.ids[token] for token in shared]
    state = model.state_dict()
    if set(state) != set(weights):
        raise UserError(f"{folder / PARENT} does not fit this version of the lab: {CURE}")
    with torch.no_grad():
        for name, tensor in state.items():
            value = weights[name].to(tensor.device)
            if name in BY_TOKEN:
                tensor[rows] = value[[old.ids[token] for token in shared]]
            else:
                tensor.copy_(value)


def trained_parts(model: EmbeddingModel, config: TrainConfig, folder: Path) -> None:
    """Freezes what fine-tuning leaves as it is (``TrainConfig.tuned``).

    The vectors of symbols that the parent did not have are learned in any case; those of the others
    then move too.
    """
    symbols = set(read_record(folder / ABOUT, CheckpointRecord, CURE)["vocabulary"])
    new = not symbols.issuperset(model.vocabulary.tokens[FIRST_SYMBOL_ID:])
    last = f"blocks.{model.config.n_layers - 1}."
    for name, parameter in model.named_parameters():
        learns = config.tuned in ("all", "subspace") or name.startswith("unembed.")
        learns |= config.tuned == "last" and name.startswith((last, "ln_final."))
        learns |= new and name == "embed.weight"
        parameter.requires_grad_(learns)
