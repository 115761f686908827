"""Runs that differ in their seed alone, trained at once: on a GPU much faster than one by one.

A small model keeps a GPU waiting for its next launch. Here one launch serves all seeds: their
weights are rows of one tensor, and their words lie in one batch. Each run's own model is a view of
its row, and is judged, saved and resumed as if it trained alone. Every seed reads the words that it
would read alone, has its own loss, and clips its gradient by its own norm. It ends as it would end
alone, except for rounding.

On a CPU padding costs more than launches, so that training one by one is faster.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise

import joblib
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from models.base import build, centre
from models.config import TrainConfig
from models.errors import DivergedError, UserError
from models.runs.run import Run
from models.training.batches import joint_steps
from models.training.loop import refuse_diverged, train
from models.training.stacked import StackedModel, can_be_stacked
from models.training.trainer import Trainer, adamw, choose_device, threads
from models.training.writer import RunWriter

STATES_APART = 10.0  # seconds between saves: saving many runs takes as long as many steps
ALIGNED = 32  # a row's length is a multiple of it, so that a GPU can read several numbers at once
HELPERS = 8  # processes, at most

Told = Callable[[Run, int, float | None], None]  # called with (run, step, last loss)


def can_train_together(config: TrainConfig) -> bool:
    """Can runs of this configuration that differ in their seed alone train at once?

    If they can, it saves time on a GPU, but not on a CPU. With dropout they cannot: what a run
    drops is drawn from its own seed. Nor can runs whose weights are averaged: each has its own
    average.
    """
    alone = config.parent or config.model.dropout or config.average
    return not alone and can_be_stacked(config.model)


def train_together(
    runs: Sequence[Run],
    device: str = "auto",
    progress: Told = lambda run, step, value: None,
) -> None:
    """Trains new runs to their end, or interrupted ones from their last saved states.

    Each run ends with the files that ``train`` would have written; the numbers are equal except for
    rounding. Its record also holds ``seeds_at_once``, and its ``seconds`` are those of all runs
    together. A seed that stops early is finished at once, and the others go on without it. If runs
    were interrupted at different steps, those behind catch up first. Models that cannot train
    together (``can_train_together``) are trained one by one. The caller holds the locks of all
    folders.

    Args:
        runs: no more than the memory of the device holds.
        progress: called for each run at the start, after every evaluation, and at the end.

    Raises:
        UserError: the runs differ in more than the seed; or for the reasons of ``train``.
        DivergedError: a training diverged; all others were trained to their end.
    """
    _check_alike(runs)
    unfinished = [run for run in runs if run.record["status"] == "training"]
    if len(unfinished) < 2 or not can_train_together(unfinished[0].config):
        for run in unfinished:
            with suppress(DivergedError):  # the others do not suffer from it
                train(run, device, partial(progress, run))
        refuse_diverged(*runs)
        return
    place = choose_device(device)
    with threads(unfinished[0].config.threads):
        writers = [RunWriter(Trainer.at_start(run, place)) for run in unfinished]
        for writer in writers:
            writer.trainer.run.update(seeds_at_once=len(writers))
            progress(writer.trainer.run, writer.trainer.step, None)
        _train(writers, progress)
    refuse_diverged(*runs)


def helpers(device: torch.device) -> int:
    """The number of processes that draw words ahead.

    A GPU computes a step of 32 seeds faster than one process draws its words. A process that may
    not have children, such as a Dask worker, draws the words itself: the answer is 0.
    """
    if device.type == "cpu" or multiprocessing.current_process().daemon:
        return 0
    return max(0, min(HELPERS, joblib.cpu_count() - 1))


def _check_alike(runs: Sequence[Run]) -> None:
    """Raises UserError unless the runs differ in their seed alone."""
    for left, right in pairwise(runs):
        first, second = (asdict(replace(run.config, seed=0)) for run in (left, right))
        differing = [name for name, value in first.items() if second[name] != value]
        if left.corpus_bytes() != right.corpus_bytes():
            differing.append("lines")
        if differing:
            raise UserError(
                f"{left.name} and {right.name} differ in {' and '.join(differing)}: "
                "runs that train together may differ in the seed alone"
            )


def _train(writers: list[RunWriter], progress: Told) -> None:
    stacked, saved = None, time.monotonic()
    while writers := [writer for writer in writers if not _finished(writer, progress)]:
        behind = min(writer.trainer.step for writer in writers)
        going = [writer for writer in writers if writer.trainer.step == behind]
        trainers = [writer.trainer for writer in going]
        if stacked is None or stacked.trainers != trainers:
            stacked = Stack(trainers)
        if resumable := time.monotonic() - saved >= STATES_APART:
            saved = time.monotonic()
        losses = _to_next_evaluation(stacked, going, resumable)
        for writer, value in zip(going, losses, strict=True):
            progress(writer.trainer.run, writer.trainer.step, value)


def _finished(writer: RunWriter, progress: Told) -> bool:
    if writer.trainer.done:
        progress(writer.trainer.run, writer.trainer.step, None)
        writer.finish()
    return writer.trainer.done


def _to_next_evaluation(stacked: Stack, going: list[RunWriter], resumable: bool) -> list[float]:
    """Trains up to the next evaluation and returns each run's last loss.

    Until then the losses stay on the device, so that no step has to wait for them.
    """
    losses: list[Tensor] = []
    while True:
        losses.append(stacked.advance())
        evaluates, writes = going[0].evaluates, going[0].writes  # alike in all runs
        if evaluates:
            values = torch.stack(losses, dim=1).tolist()
            for writer, row in zip(going, values, strict=True):
                writer.losses = row
        if writes:
            for writer in going:
                writer.write(resumable)
        if evaluates:
            return [row[-1] for row in values]


class Stack:
    """Runs that stand at the same step, as one model.

    Attributes:
        trainers: the runs' trainers. Their parameters and their optimizers' moments become views of
            this stack's.
        weights: one row for each run, [model, weight].
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers, first = list(trainers), trainers[0]
        config, language, device = first.config, first.run.language, first.model.device
        self._shapes = {name: p.shape for name, p in first.model.named_parameters()}
        sizes = [shape.numel() for shape in self._shapes.values()]
        self._sizes = [*sizes, -sum(sizes) % ALIGNED]
        self.weights = nn.Parameter(self._rows(lambda trainer, p: p.detach()))
        state = {
            "exp_avg": self._rows(lambda trainer, p: _moment(trainer, p, "exp_avg")),
            "exp_avg_sq": self._rows(lambda trainer, p: _moment(trainer, p, "exp_avg_sq")),
        }
        step = torch.tensor(float(first.step), device=device)
        self._optimizer = adamw(config, [self.weights])
        self._optimizer.state[self.weights] = {"step": step, **state}
        weights = self._by_name(self.weights.detach())
        moments = {key: self._by_name(rows) for key, rows in state.items()}
        for row, trainer in enumerate(trainers):
            for name, parameter in trainer.model.named_parameters():
                parameter.data = weights[name][row]
                views = {key: values[name][row] for key, values in moments.items()}
                trainer.moments[parameter] = {"step": step, **views}
        model = build(config.model, language.vocabulary).to(self.weights.dtype)
        self._model = StackedModel(model)
        configs = [trainer.config for trainer in trainers]
        self._steps = joint_steps(configs, language, device, first.step, helpers(device))

    def advance(self) -> Float[Tensor, " model"]:
        """Takes one step of every run and returns the losses before it, in nats per answer."""
        first = self.trainers[0]
        taught = next(self._steps)
        weights = self._by_name(self.weights)
        logits = self._model(weights, taught.batch.tokens, taught.offsets)
        answers = first.run.objective.losses(logits, taught.batch)
        losses = answers.view(len(self.trainers), -1).sum(dim=1) / taught.answers
        self._optimizer.zero_grad()
        losses.sum().backward()  # no run's loss depends on another's weights
        for group in self._optimizer.param_groups:
            group["lr"] = first.learning_rate(first.step)
        _clip_rows(self.weights, first.config.clip)
        self._optimizer.step()
        if first.config.model.counting.centred:
            centre(weights["embed.weight"].detach())
        for trainer in self.trainers:
            trainer.step += 1
        return losses.detach()

    def _rows(self, of: Callable[[Trainer, nn.Parameter], Tensor]) -> Float[Tensor, "model weight"]:
        """One row for each run: the values of all its parameters, then zeros to fill the row."""
        rows = [
            torch.cat([of(trainer, p).flatten() for p in trainer.model.parameters()])
            for trainer in self.trainers
        ]
        return pad(torch.stack(rows), (0, self._sizes[-1]))

    def _by_name(self, rows: Float[Tensor, "model weight"]) -> dict[str, Tensor]:
        """The values of each parameter, [model, *shape], as views of ``rows``."""
        *parts, _ = rows.split(self._sizes, dim=1)
        pairs = zip(self._shapes.items(), parts, strict=True)
        return {name: part.view(len(rows), *shape) for (name, shape), part in pairs}


def _moment(trainer: Trainer, parameter: nn.Parameter, key: str) -> Tensor:
    """Adam's state of a parameter under ``key``; zeros before the first step."""
    return trainer.moments[parameter].get(key, torch.zeros_like(parameter, requires_grad=False))


def _clip_rows(parameter: nn.Parameter, largest: float) -> None:
    """Clips the gradient of every row by the row's own norm, like ``clip_grad_norm_``."""
    assert parameter.grad is not None
    norms = parameter.grad.norm(dim=1, keepdim=True)
    parameter.grad *= (largest / (norms + 1e-6)).clamp(max=1.0)
