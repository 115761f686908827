"""Training: seeded, resumable bit for bit, and stopped early by the training window alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from models.errors import DivergedError
from models.runs.run import Run
from models.training.trainer import Trainer, choose_device, threads
from models.training.writer import RunWriter

Progress = Callable[[int, float | None], None]
"""Called with the step and the loss of the last evaluated step; None before the first evaluation,
at the start and at the end."""


def train(run: Run, device: str = "auto", progress: Progress = lambda step, value: None) -> None:
    """Trains a new run to its end, or an interrupted one from its last saved state.

    On one kind of CPU a run that was interrupted and resumed ends with the same bits as one that
    was not. The number of cores plays no part: ``config.threads`` threads are used during training.

    Raises:
        UserError: the device does not exist, the folder cannot be written, or the saved state is
            damaged.
        DivergedError: the loss or the weights are no numbers any more. The run keeps its last whole
            checkpoint, and its status is "diverged".
    """
    if run.record["status"] == "finished":
        return
    refuse_diverged(run)
    with threads(run.config.threads):
        _train(Trainer.at_start(run, choose_device(device)), progress)
    refuse_diverged(run)


def refuse_diverged(*runs: Run) -> None:
    """Raises DivergedError if one of these trainings diverged."""
    for run in runs:
        record = run.record
        if record["status"] == "diverged":
            raise DivergedError(
                f"{run.path} diverged before step {record['steps']}, its loss or weights are no "
                "numbers any more: remove it, and train again with a smaller --learning-rate"
            )


def _train(trainer: Trainer, progress: Progress) -> None:
    writer, last = RunWriter(trainer), None
    losses: list[Tensor] = []
    progress(trainer.step, None)
    while not trainer.done:
        losses.append(trainer.advance())
        if writer.evaluates:  # read only now: reading waits for the device
            writer.losses, losses = torch.stack(losses).tolist(), []
            last = writer.losses[-1]
        writer.write()
        progress(trainer.step, last)
    progress(trainer.step, None)
    writer.finish()
