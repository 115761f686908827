"""Training: seeded, resumable to the bit, and stopped by the training window alone."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from models.base import LanguageModel
from models.config import TrainConfig
from models.errors import UserError
from models.families import build
from models.languages import FormalLanguage, Language, Sample
from models.objectives import objective
from models.rivals.ngram import HookedNGram
from models.runs.checkpoints import read_weights, save_checkpoint
from models.runs.files import write_bytes, writing
from models.runs.run import METRICS, Run
from models.training.batches import VALIDATION, Batches
from models.training.evaluation import judge

STATE = "training.safetensors"

Progress = Callable[[int, float | None], None]  # called with (step, the last loss)


Device = Literal["auto", "cpu", "cuda"]


def choose_device(name: str) -> torch.device:
    """The device of a name; "auto" is the GPU where there is one. Raises UserError for others."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("no CUDA device here: use --device cpu or --device auto")
    if name not in ("cpu", "cuda"):
        raise UserError(f"unknown device {name!r}: use auto, cpu or cuda")
    return torch.device(name)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many CPU threads in a step; as before after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def adamw(config: TrainConfig, parameters: Iterable[nn.Parameter]) -> torch.optim.AdamW:
    """The optimizer of a run."""
    return torch.optim.AdamW(
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
    step: int = 0
    flawless: int = 0  # evaluations in a row without a mistake

    @classmethod
    def at_start(cls, run: Run, device: torch.device) -> Trainer:
        # Once a large block has been freed, glibc keeps freed memory: a step then costs a few page
        # faults instead of hundreds, and a tenth less time.
        torch.empty(31 * 2**20, dtype=torch.uint8)
        model = build(run.config.model, run.language.vocabulary, run.config.seed)
        model.to(device)
        if isinstance(model, HookedNGram):
            return cls(run, model, None)
        return cls(run, model, adamw(run.config, model.parameters()))

    @cached_property
    def batches(self) -> Batches:
        return Batches(self.config, self.run.language, self.model.device)

    @property
    def config(self) -> TrainConfig:
        return self.run.config

    @property
    def done(self) -> bool:
        enough = self.config.patience and self.flawless >= self.config.patience
        return bool(enough) or self.step >= self.config.steps

    def advance(self) -> float:
        """One step; its words hang on the seed and the step alone. Returns the loss before it."""
        taught = self.batches[self.step]
        value = torch.zeros((), device=self.model.device)
        for group in taught.groups:
            logits = self.model(group.batch.tokens, group.offsets)
            losses = objective(self.config.objective).losses(logits, group.batch)
            value = value + losses.sum() / taught.answers
        if self.optimizer is not None:
            self._descend(self.optimizer, value)
        elif isinstance(self.model, HookedNGram):
            for group in taught.groups:
                self.model.count(group.batch.tokens, group.batch.target, group.batch.weight)
        self.step += 1
        return float(value.detach())

    def _descend(self, optimizer: torch.optim.AdamW, value: Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = self.learning_rate(self.step)
        optimizer.zero_grad()
        value.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        optimizer.step()
        self.model.constrain()

    def learning_rate(self, step: int) -> float:
        return self.config.learning_rate * self.schedule(step)

    def schedule(self, step: int) -> float:
        """Linear rise over ``warmup`` steps, times a cosine from 1 down to 0 over all steps."""
        rise = min(1.0, (step + 1) / max(self.config.warmup, 1))
        return rise * 0.5 * (1 + math.cos(math.pi * step / self.config.steps))

    # -- the state to resume from ---------------------------------------------------------------

    @property
    def moments(self) -> dict[Tensor, dict[str, Tensor]]:
        """What the optimizer remembers of each parameter."""
        return {} if self.optimizer is None else self.optimizer.state

    def save_state(self) -> None:
        tensors = {f"model.{n}": t.detach() for n, t in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.moments[parameter].items():
                tensors[f"{key}.{name}"] = value
        # Copied: trained together, all parameters share one count of steps, which no file may.
        tensors = {n: t.to("cpu", copy=True).contiguous() for n, t in tensors.items()}
        about: dict[str, Any] = {"step": self.step, "flawless": self.flawless}
        about["sha256"] = self._digest(tensors, about)
        write_bytes(self.run.path / STATE, save(tensors, {"about": json.dumps(about)}))

    def _digest(self, tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
        """SHA-256 of all that a state holds and of the run's configuration.

        As the run's record has it, without the fields that came later.
        """
        owner = json.dumps([about["step"], about["flawless"], self.run.record["config"]])
        return hashlib.sha256(save(tensors) + owner.encode()).hexdigest()

    def load_state(self) -> None:
        """Raises UserError if the state is damaged or another run's."""
        path = self.run.path / STATE
        tensors, _ = read_weights(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata()
        try:
            about = json.loads(metadata["about"])
            if about["sha256"] != self._digest(tensors, about):
                raise ValueError("not the state that was written")
            parts: dict[str, dict[str, Tensor]] = {}
            for name, tensor in tensors.items():
                kind, rest = name.split(".", 1)
                parts.setdefault(kind, {})[rest] = tensor
            self.model.load_state_dict(parts.pop("model"))
            for name, parameter in self.model.named_parameters():
                self.moments[parameter] = {
                    key: value[name].to(parameter.device) for key, value in parts.items()
                }
        except (KeyError, RuntimeError, TypeError, ValueError):
            raise UserError(
                f"{path} is damaged or another run's: train this run again in another folder"
            ) from None
        self.step, self.flawless = about["step"], about["flawless"]


def validation_sample(language: Language, config: TrainConfig) -> Sample:
    """Fixed words of the training window: 256 drawn ones, and one member of every size.

    The members of every size make "flawless" mean the whole window; a corpus has its own lines.
    """
    rng = np.random.default_rng([config.seed, VALIDATION])
    lengths = language.lengths(config.max_n)
    try:
        drawn = language.sample(rng, 256, lengths, split="validation")
    except LookupError:
        raise UserError(
            f"{language.name} is too small to set validation lines apart: add lines (20 or more)"
        ) from None
    if not isinstance(language, FormalLanguage):
        return drawn
    positive = np.array(language.positive_lengths(lengths))
    labels = np.ones(len(positive), dtype=bool)
    return Sample.concatenate(drawn, Sample(language.draw(rng, positive, labels), labels))


def checkpoint_steps(last: int) -> set[int]:
    """0, 1, 2, 5, 10, 20, 50, ... up to ``last``, and ``last``."""
    spaced = (m * 10**e for e in range(len(str(last))) for m in (1, 2, 5))
    return {0, last, *(s for s in spaced if s < last)}


def train(run: Run, device: str = "auto", progress: Progress = lambda step, value: None) -> None:
    """Trains a new run to its end, or an interrupted one from its last saved state.

    On one kind of CPU an interrupted and resumed run ends with the same bits as an undisturbed one,
    and so does a run on a machine with more cores: ``config.threads`` is used, and put back after.

    Raises:
        UserError: a device that is not there, a folder that cannot be written, a damaged state.
    """
    if run.record["status"] == "finished":
        return
    with threads(run.config.threads):
        _train(Trainer.at_start(run, choose_device(device)), progress)


def _train(trainer: Trainer, progress: Progress) -> None:
    sitting = Sitting(trainer)
    progress(trainer.step, None)
    while not trainer.done:
        value = trainer.advance()
        sitting.losses.append(value)
        sitting.write()
        progress(trainer.step, value)
    progress(trainer.step, None)
    sitting.finish()


class Sitting:
    """A run from its start, or from its last saved state, to its end: all that it writes.

    Attributes:
        losses: of the steps since the last evaluation.
    """

    def __init__(self, trainer: Trainer) -> None:
        """Takes up the saved state, if there is one, and forgets what was written after it."""
        self.trainer, run = trainer, trainer.run
        if (run.path / STATE).exists():
            trainer.load_state()
        kept = [line for line in run.metrics() if line["step"] <= trainer.step]
        write_bytes(run.path / METRICS, "".join(json.dumps(line) + "\n" for line in kept).encode())
        self._started = time.monotonic() - (kept[-1]["seconds"] if kept else 0.0)
        self._validation = validation_sample(run.language, run.config)
        self._planned = checkpoint_steps(run.config.steps)
        self.losses: list[float] = []
        run.update(status="training", device=str(trainer.model.device))
        if trainer.step == 0:
            self._save_checkpoint()

    @property
    def evaluates(self) -> bool:
        """Is the training window judged after this step?"""
        step, config = self.trainer.step, self.trainer.config
        return step == config.steps or step % config.evaluate_every == 0

    @property
    def writes(self) -> bool:
        """Is anything due after this step?"""
        return self.evaluates or self.trainer.step in self._planned

    def write(self, resumable: bool = True) -> None:
        """What is due after this step.

        Args:
            resumable: save the state to resume from, if the step is evaluated; at the end it is
                saved in any case.
        """
        evaluates = self.evaluates
        if evaluates:
            self._evaluate()
        if self.trainer.step in self._planned or self.trainer.done:
            self._save_checkpoint()
        # After the checkpoint: a run killed between the two writes it once more.
        if evaluates and (resumable or self.trainer.done):
            self.trainer.save_state()

    def finish(self) -> None:
        seconds = round(time.monotonic() - self._started, 1)
        self.trainer.run.update(status="finished", steps=self.trainer.step, seconds=seconds)

    def _save_checkpoint(self) -> None:
        run, trainer = self.trainer.run, self.trainer
        save_checkpoint(run.checkpoints, trainer.model, run.config, trainer.step)

    def _evaluate(self) -> None:
        """Judges the training window and appends a line to metrics.jsonl."""
        trainer, validation = self.trainer, self._validation
        run = trainer.run
        trainer.model.eval()
        exact, right, value = judge(trainer.model, run.language, validation, run.objective)
        trainer.model.train()
        trainer.flawless = trainer.flawless + 1 if exact.all() and right.all() else 0
        line = {
            "step": trainer.step,
            "loss": float(np.mean(self.losses)),
            "validation_loss": value,
            "exact": float(exact[validation.labels].mean()) if validation.labels.any() else None,
            "recognition": float(right.mean()),
            "learning_rate": trainer.learning_rate(trainer.step - 1),
            "seconds": round(time.monotonic() - self._started, 2),
        }
        with writing(run.path / METRICS), (run.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.losses = []
