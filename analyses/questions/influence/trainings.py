"""Many trainings of one run, each on some of its lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float

from analyses.jobs.workers import side_by_side
from analyses.options.influence import Influence
from analyses.questions.influence.values import Shortcut, margins, target_words
from models.config import Device
from models.runs.run import Run
from models.training.without_lines import trained_again


@dataclass(frozen=True)
class Said:
    """What networks say that were trained on some of the lines.

    Attributes:
        margins: the log odds of the right answer on the target words, [training, target].
        reliance: on the planted shortcut, [training]; NaN where there is none.
    """

    margins: Float[np.ndarray, "training target"]
    reliance: Float[np.ndarray, " training"]


def halves(lines: int, count: int, seed: int) -> Bool[np.ndarray, "training line"]:
    """Which half of the lines each training keeps, drawn at random."""
    rng = np.random.default_rng([seed, 1])
    kept = np.zeros((count, lines), dtype=bool)
    for row in kept:
        row[rng.permutation(lines)[: lines // 2]] = True
    return kept


def said_after(
    run: Run,
    asked: Influence,
    kept: Bool[np.ndarray, "training line"],
    told: Callable[[str], None],
    seed: int | None = None,
) -> Said:
    """Trains the run once for each row, side by side.

    Args:
        kept: False for a line that is left out.
        told: called after each training with what it was.
        seed: of other first weights and another order; by default the run's own.
    """
    fixed = (run.path, run.step, asked.targets, asked.seed, seed, asked.device)
    jobs = {number: (*fixed, row) for number, row in enumerate(kept)}
    found: dict[int, tuple[np.ndarray, float]] = {}
    for number, said in side_by_side(_said, jobs, asked.workers, asked.scheduler):
        found[number] = said
        told("a training without some lines")
    return Said(
        np.stack([found[number][0] for number in jobs]),
        np.array([found[number][1] for number in jobs]),
    )


def _said(
    path: Path,
    step: int,
    targets: int,
    drawn: int,
    seed: int | None,
    device: Device,
    kept: Bool[np.ndarray, " line"],
) -> tuple[np.ndarray, float]:
    """The margins of the target words, and the reliance on the shortcut, after one training."""
    run = Run(path, step)
    (model,) = trained_again(run, kept, [step], seed=seed, device=device)
    model.cpu()
    shortcut = Shortcut.of(run, drawn)
    with torch.no_grad():
        leans = float("nan") if shortcut is None else float(shortcut.reliance(run, model))
        return margins(run, model, target_words(run, targets)).numpy(), leans
