"""Sequences per second of many seeds at once on a GPU, against the same seeds one after the other.

Whole trainings through the lab's own doors, all that they write included. Times are wall clock:
what a GPU is kept waiting for is what this is about.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from models.config import TrainConfig
from models.runs.run import Run
from models.training.loop import train
from models.training.recipes import recipe
from models.training.together import train_together
from tests.benchmarks.measure import Result, Side

FASTER = 8.0
SEEDS, IN_TURN = 32, 4  # all alike: in turn, a part of them is timed
ROUNDS = 3


def together_speed() -> Iterator[Result]:
    """Every comparison of this file; none without a CUDA device."""
    if torch.cuda.is_available():
        for language in ("anbn", "anbncn", "dieren"):
            yield compare_seeds(recipe(language), "cuda", SEEDS, IN_TURN, ROUNDS)


def compare_seeds(
    config: TrainConfig, device: str, seeds: int, in_turn: int, rounds: int
) -> Result:
    """So many seeds at once against some of them in turn; who goes first alternates."""
    times = np.empty((rounds, 2))  # of a sequence; ours, theirs
    with tempfile.TemporaryDirectory() as folder:
        sequences_per_second(replace(config, steps=2), device, 2, True, Path(folder) / "first")
        for turn in range(rounds):
            for together in (turn % 2 == 0, turn % 2 == 1):
                count = seeds if together else in_turn
                path = Path(folder) / f"{turn}-{together}"
                rate = sequences_per_second(config, device, count, together, path)
                times[turn, 0 if together else 1] = 1 / rate
    return Result.of(
        f"training {config.language}, a word, {device}, wall clock",
        Side("ours", f"{seeds} seeds at once", lambda: None),
        Side("ours", f"{in_turn} of the seeds, one after the other", lambda: None),
        FASTER,
        times,
    )


def sequences_per_second(
    config: TrainConfig, device: str, seeds: int, together: bool, folder: Path
) -> float:
    """Of new runs, trained to their end."""
    runs = [Run.create(folder / str(seed), replace(config, seed=seed)) for seed in range(seeds)]
    started = time.monotonic()
    if together:
        train_together(runs, device)
    else:
        for run in runs:
            train(run, device)
    return seeds * config.steps * config.batch_size / (time.monotonic() - started)
