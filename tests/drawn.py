"""What tests read again: the words of a training step, and files of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from models.config import TrainConfig
from models.languages import Language, Words
from models.training.batches import draw, steps_at_once


def words_of(config: TrainConfig, language: Language, step: int) -> tuple[Words, np.ndarray]:
    """The words that one step draws, and their offsets, [words]."""
    chunk, index = divmod(step, steps_at_once(config))
    words, offsets = draw(config, language, chunk)
    rows = slice(index * config.batch_size, (index + 1) * config.batch_size)
    return words[rows], offsets[rows]


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    return json.loads(path.read_bytes())
