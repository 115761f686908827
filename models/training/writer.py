"""Writes a run's files while it trains: evaluations, checkpoints, the state to resume from."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence

import numpy as np

from models.base import all_finite
from models.config import SELECTION_WORDS, TrainConfig
from models.languages import AmbiguousLanguage, FormalLanguage, Language, Sample
from models.runs.checkpoints import save_checkpoint
from models.runs.files import append_bytes, making, sweep, write_bytes
from models.runs.learnt import selection_lengths
from models.runs.records import Evaluation
from models.runs.run import METRICS
from models.training.batches import SELECTION, VALIDATION
from models.training.evaluation import judge, right_words
from models.training.state import STATE, load_state, save_state
from models.training.trainer import Trainer


def validation_sample(language: Language, config: TrainConfig) -> Sample:
    """Fixed words of the training window: 256 drawn ones, and one member of every size.

    Because every size is among them, "flawless" speaks for the whole window. A corpus has only its
    own validation lines, and where words fit two rules all are drawn, because a member of some
    sizes would tell the rules apart.
    """
    rng = np.random.default_rng([config.seed, VALIDATION])
    lengths = language.lengths(config.max_n)
    drawn = language.sample(rng, 256, lengths, split="validation")
    if not isinstance(language, FormalLanguage) or isinstance(language, AmbiguousLanguage):
        return drawn
    positive = np.array(language.positive_lengths(lengths))
    labels = np.ones(len(positive), dtype=bool)
    return Sample.concatenate(drawn, Sample(language.draw(rng, positive, labels), labels))


def _selection_sample(language: Language, config: TrainConfig) -> Sample | None:
    """Words beyond the training window, by which the weights are chosen; None if nobody asked."""
    rng = np.random.default_rng([config.seed, SELECTION])
    lengths = selection_lengths(language, config)
    return language.sample(rng, SELECTION_WORDS, lengths, split="validation") if lengths else None


def _checkpoint_steps(last: int) -> set[int]:
    """0, 1, 2, 5, 10, 20, 50, ... up to ``last``, and ``last``."""
    spaced = (m * 10**e for e in range(len(str(last))) for m in (1, 2, 5))
    return {0, last, *(s for s in spaced if s < last)}


def _best_of(evaluated: Sequence[Evaluation]) -> Evaluation | None:
    """The latest of the evaluations with the largest share of ``_selection_sample``; None where no
    evaluation has one."""
    scored = (line for line in reversed(evaluated) if "selection" in line)
    return max(scored, key=lambda line: line["selection"], default=None)


def _number(value: float) -> float | None:
    """A value as JSON knows it: None stands for NaN and infinity."""
    return value if math.isfinite(value) else None


class RunWriter:
    """Writes the files of a run, from its start or its last saved state to its end.

    Attributes:
        losses: the losses of the steps since the last evaluation.
    """

    def __init__(self, trainer: Trainer) -> None:
        """Takes up the saved state, if there is one, and forgets what was written after it."""
        self.trainer, run = trainer, trainer.run
        for folder in (run.path, run.checkpoints):
            sweep(folder, age=0.0)  # one process at a time trains a run
        with making(run.checkpoints):
            if os.path.lexists(run.path / STATE):  # what a dead link led to may come back
                load_state(trainer)
            if trainer.step == 0 or trainer.done:  # the last may be lost, and the state holds it
                self._save_checkpoint()
        lines = [line for line in run.metrics() if line["step"] <= trainer.step]
        write_bytes(run.path / METRICS, "".join(json.dumps(line) + "\n" for line in lines).encode())
        self._started = time.monotonic() - (lines[-1]["seconds"] if lines else 0.0)
        self._validation = validation_sample(run.language, run.config)
        self._selection = _selection_sample(run.language, run.config)
        self._selected = _best_of(lines)
        self._planned = _checkpoint_steps(run.config.steps)
        self.losses: list[float] = []
        run.update(status="training", device=str(trainer.model.device))
        run.forget_checkpoints(trainer.step)  # on a full disk they stay: all above is written first

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
        """Writes what is due after this step.

        Args:
            resumable: whether an evaluated step also saves the state to resume from; the last step
                saves it in any case.
        """
        evaluates = self.evaluates
        if self.writes and not self._whole():
            # The last checkpoint and the last state stay as they are.
            self.trainer.diverged = True
            self._evaluate()
            return
        if evaluates:
            self._evaluate()
        best = self._selected
        steps = self._planned if best is None else {*self._planned, best["step"]}
        if self.trainer.step in steps or self.trainer.done:
            self._save_checkpoint()
        # After the checkpoint: a run that is killed between the two writes the checkpoint again.
        if evaluates and (resumable or self.trainer.done):
            save_state(self.trainer)
            if best is not None:  # a run that goes on from an older state needed an older best
                self.trainer.run.forget_checkpoints(after=0, but=steps)

    def finish(self) -> None:
        run, best, selected = self.trainer.run, self._selected, dict[str, float]()
        status = "diverged" if self.trainer.diverged else "finished"
        if best is not None and status == "finished":
            run.model(best["step"])  # of all steps, the state holds the last alone
            run.forget_checkpoints(after=best["step"])
            selected = {"selected_step": best["step"], "selected_share": best["selection"]}
        seconds = round(time.monotonic() - self._started, 1)
        run.update(status=status, steps=self.trainer.step, seconds=seconds, **selected)

    def _whole(self) -> bool:
        """Are the losses since the last evaluation, and all weights, numbers?"""
        return bool(np.isfinite(self.losses).all()) and all_finite(self.trainer.model)

    def _save_checkpoint(self) -> None:
        run, trainer = self.trainer.run, self.trainer
        save_checkpoint(run.checkpoints, trainer.whole_model, run.config, trainer.step)

    def _evaluate(self) -> None:
        """Judges the training window and appends a line to metrics.jsonl."""
        trainer, validation = self.trainer, self._validation
        run, model = trainer.run, trainer.judged_model
        model.eval()
        exact, right, value = judge(model, run.language, validation, run.objective)
        selection = None
        if self._selection is not None:
            answers = right_words(model, run.language, self._selection, run.objective)
            selection = float(np.logical_and(*answers).mean())
        model.train()
        members = exact[:0]
        if len(exact) and not run.objective.verdict_alone:
            members = exact[validation.labels]
        flawless = len(right) > 0 and exact.all() and right.all()
        trainer.flawless = trainer.flawless + 1 if flawless else 0
        line: Evaluation = {
            "step": trainer.step,
            "loss": _number(float(np.mean(self.losses or [np.nan]))),
            "validation_loss": _number(value),
            "exact": float(members.mean()) if len(members) else None,
            "recognition": float(right.mean()) if len(right) else None,
            "learning_rate": trainer.learning_rate(trainer.step - 1),
            "seconds": round(time.monotonic() - self._started, 2),
        }
        if selection is not None:
            line["selection"] = selection
        append_bytes(run.path / METRICS, f"{json.dumps(line, allow_nan=False)}\n".encode())
        self.losses = []
        self._selected = _best_of([x for x in (self._selected, line) if x is not None])
