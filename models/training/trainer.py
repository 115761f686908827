"""One run in memory: its model, its optimizer, and one step after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from inspect import unwrap

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from models.base import EmbeddingModel, LanguageModel, build
from models.config import TrainConfig
from models.errors import UserError
from models.runs.parents import start_from, trained_parts
from models.runs.run import Run
from models.training.adapters import add_adapters, merged
from models.training.batches import DROPPED, Batches
from models.training.subspace import add_subspace, placed

ADDED = {"lora": (add_adapters, merged), "subspace": (add_subspace, placed)}
"""Parts that are learned beside the weights: how a model gets one, and how it becomes weights."""


def choose_device(name: str) -> torch.device:
    """The device of a name: "cpu", "cuda", or "auto", which is the GPU if there is one.

    Raises:
        UserError: the name is none of these, or there is no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device here: use --device cpu or --device auto")
    if name not in ("cpu", "cuda"):
        raise UserError(f"unknown device {name!r}: use auto, cpu or cuda")
    return torch.device(name)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Uses ``count`` CPU threads inside, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _dropping(config: TrainConfig, step: int, device: torch.device) -> Iterator[None]:
    """Lets dropout draw from the seed and the number of the step; nothing else is drawn inside.

    The global random state is afterwards as it was before.
    """
    if not config.model.dropout:
        yield
        return
    drawn = np.random.SeedSequence([config.seed, DROPPED, step]).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(int(drawn[0]))
        yield


def learning_rate(config: TrainConfig, step: int) -> float:
    """The learning rate of one step: a linear rise over ``warmup`` steps, times a cosine from 1
    down to 0 over all steps."""
    rise = min(1.0, (step + 1) / max(config.warmup, 1))
    return config.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * step / config.steps))


class _AdamW(torch.optim.AdamW):
    """AdamW without torch's compiler.

    The first step of torch's own imports all of the compiler, only to mark its methods as not to be
    compiled, and that takes longer than to train a small network. Here they stand unmarked.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)


def adamw(config: TrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
    """The optimizer of a run."""
    return _AdamW(
        parameters,
        lr=config.learning_rate,
        betas=(0.9, 0.99),
        weight_decay=config.weight_decay,
        fused=True,
    )


@dataclass
class Trainer:
    """One run in memory: everything that a step reads or changes."""

    run: Run
    model: LanguageModel
    optimizer: torch.optim.AdamW | None  # None: the model learns by counting
    average: AveragedModel | None = None  # of the weights after each step; None: nobody asked
    step: int = 0
    flawless: int = 0  # evaluations in a row without a mistake
    diverged: bool = False  # the loss or a weight is no number any more

    @classmethod
    def at_start(cls, run: Run, device: torch.device) -> Trainer:
        """The trainer of a run before its first step."""
        # After one large block has been freed, glibc keeps the memory that is freed later. A step
        # then has a few page faults instead of hundreds, and takes a tenth less time.
        torch.empty(31 * 2**20, dtype=torch.uint8)
        model = build(run.config.model, run.language.vocabulary, run.config.seed)
        if run.config.parent:
            assert isinstance(model, EmbeddingModel)
            start_from(run.path, model)
            trained_parts(model, run.config, run.path)
            if run.config.tuned in ADDED:
                ADDED[run.config.tuned][0](model, run.config)
        model.to(device)
        if model.learns_by_counting:
            return cls(run, model, None)
        learned = (parameter for parameter in model.parameters() if parameter.requires_grad)
        average = None
        if decay := run.config.average:
            average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay))
        return cls(run, model, adamw(run.config, learned), average)

    @property
    def judged_model(self) -> LanguageModel:
        """The model that is evaluated: the averaged one, if there is one."""
        if self.average is None:
            return self.model
        assert isinstance(self.average.module, LanguageModel)
        return self.average.module

    @property
    def whole_model(self) -> LanguageModel:
        """The judged model with all that was learned in its own weights, as a checkpoint holds
        it."""
        if self.config.tuned not in ADDED:
            return self.judged_model
        return ADDED[self.config.tuned][1](self.model, self.config)

    @cached_property
    def batches(self) -> Batches:
        return Batches(self.config, self.run.language, self.model.device)

    @property
    def config(self) -> TrainConfig:
        return self.run.config

    @property
    def done(self) -> bool:
        """Were all steps taken, or enough flawless evaluations seen (``patience``)? Or is there no
        way on?"""
        enough = self.config.patience and self.flawless >= self.config.patience
        return self.diverged or bool(enough) or self.step >= self.config.steps

    def advance(self) -> Float[Tensor, ""]:
        """Takes one step and returns the loss before it, in nats per answer.

        The loss stays on the device: whoever reads it waits until the device has done the step.

        Which words it reads, and what dropout drops, depends on the seed and the number of the step
        alone. A word that a step drew twice, and its beginning that is a word too, share what is
        dropped: they are computed once.
        """
        taught = self.batches[self.step]
        value = torch.zeros((), device=self.model.device)
        with _dropping(self.config, self.step, self.model.device):
            for group in taught.groups:
                logits = self.model(group.batch.tokens, group.offsets)
                losses = self.run.objective.losses(logits, group.batch)
                value = value + losses.sum() / taught.answers
        if self.optimizer is not None:
            self._descend(self.optimizer, value)
        else:
            for group in taught.groups:
                self.model.count(group.batch.tokens, group.batch.target, group.batch.weight)
        self.step += 1
        return value.detach()

    def _descend(self, optimizer: torch.optim.AdamW, value: Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate(self.step)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        optimizer.step()
        self.model.constrain()
        if self.average is not None:  # it begins as a copy of the weights after the first step
            self.average.update_parameters(self.model)

    def learning_rate(self, step: int) -> float:
        return learning_rate(self.config, step)

    @property
    def moments(self) -> dict[Tensor, dict[str, Tensor]]:
        """The optimizer's state of each parameter; empty if the model learns by counting."""
        return {} if self.optimizer is None else self.optimizer.state
