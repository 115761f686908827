"""Many trainings of one run, each on some of its lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from analyses.jobs.workers import side_by_side
from analyses.options.training import Influence
from analyses.questions.training.of_lines.values import Shortcut, margins, target_words
from models.config import Device
from models.runs.run import Run
from models.training.without_lines import trained_again


def halves(lines: int, count: int, seed: int) -> Bool[np.ndarray, "training line"]:
    """Which half of the lines each training keeps, drawn at random."""
    rng = np.random.default_rng([seed, 1])
    kept = np.zeros((count, lines), dtype=bool)
    for row in kept:
        row[rng.permutation(lines)[: lines // 2]] = True
    return kept


def margins_after(
    run: Run,
    options: Influence,
    kept: Bool[np.ndarray, "training line"],
    told: Callable[[str], None],
    seed: int | None = None,
) -> Float[np.ndarray, "training target"]:
    """Trains the run once for each row, side by side: the log odds of the right answer on the
    target words.

    Args:
        kept: False for a line that is left out.
        told: called after each training with what it was.
        seed: seed of other first weights and another order; by default the run's own.
    """
    return np.stack(_after(_margins, run, options, kept, told, (options.targets, seed)))


def reliance_after(
    run: Run,
    options: Influence,
    kept: Bool[np.ndarray, "training line"],
    told: Callable[[str], None],
) -> Float[np.ndarray, " training"]:
    """The reliance on a shortcut that is planted in the lines; else like ``margins_after``."""
    return np.array(_after(_reliance, run, options, kept, told, (options.culprits, options.seed)))


def _after(
    work: Callable[..., Any],
    run: Run,
    options: Influence,
    kept: Bool[np.ndarray, "training line"],
    progress: Callable[[str], None],
    more: tuple[Any, ...],
) -> list[Any]:
    jobs = {
        number: (run.path, run.step, options.device, row, *more) for number, row in enumerate(kept)
    }
    answers: dict[int, Any] = {}
    for number, answer in side_by_side(work, jobs, options.workers, options.scheduler):
        answers[number] = answer
        progress("a training without some lines")
    return [answers[number] for number in jobs]


def _margins(
    path: Path, step: int, device: Device, kept: np.ndarray, targets: int, seed: int | None
) -> np.ndarray:
    run = Run(path, step)
    (model,) = trained_again(run, kept, [step], seed=seed, device=device)
    with torch.no_grad():
        return margins(run, model.cpu(), target_words(run, targets)).numpy()


def _reliance(
    path: Path, step: int, device: Device, kept: np.ndarray, share: float, drawn: int
) -> float:
    run = Run(path, step)
    shortcut = Shortcut.of(run, share, drawn)
    assert shortcut is not None
    (model,) = trained_again(run, kept, [step], shortcut.lines, device=device)
    with torch.no_grad():
        return float(shortcut.reliance(run, model.cpu()))
