"""A training once more, from the same first weights and in the same order, without some lines.

A line can be left out only if all words come from one pool, that of ``TrainConfig.lines``. Each
step draws the words that it drew before. Those that are left out are not read, and the loss is the
mean over the others. A step without any word left changes nothing. So the difference between two
such trainings is what these lines did.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool

from models.base import LanguageModel
from models.config import TrainConfig
from models.errors import DivergedError, UserError
from models.languages import Language, Words
from models.runs.run import Run
from models.training.batches import Batches, drawn_lines, some_words
from models.training.trainer import Trainer, choose_device, threads


class _Lines(Batches):
    """The steps of a training on given lines. Some of the lines are left out.

    Args:
        words: as many as the training's own lines; their labels may be written into them.
        kept: False for a line that is left out.
    """

    def __init__(
        self,
        config: TrainConfig,
        language: Language,
        device: torch.device,
        words: Words,
        kept: Bool[np.ndarray, " line"],
    ) -> None:
        super().__init__(config, language, device)
        self.words, self.kept = words, kept

    def _drawn(self, chunk: int) -> tuple[Words, np.ndarray, np.ndarray]:
        numbers, offsets = drawn_lines(self.config, len(self.words), chunk)
        step = np.arange(len(numbers)) // self.config.batch_size
        kept = self.kept[numbers]
        return self.words[numbers[kept]], offsets[kept], step[kept]


def lines_of(run: Run) -> Words:
    """The lines that a run was trained on, each once.

    Raises:
        UserError: its words were drawn afresh for every step, its training began from weights of
            another run, or it learned by counting.
    """
    if not run.config.lines:
        raise UserError(
            f"{run.name} was not trained on a pool of lines, so none can be left out: train on a "
            "formal language with --lines, for example --lines 300"
        )
    if run.config.parent:
        raise UserError(
            f"{run.name} was fine-tuned, so what its lines did depends on its parent: choose a run "
            "that was trained from its first weights"
        )
    if run.config.model.family.tabular:
        raise UserError(f"{run.name} learned by counting: choose a run that learned by gradient")
    return some_words(run.config, run.language)


def trained_again(
    run: Run,
    kept: Bool[np.ndarray, " line"],
    at: Sequence[int],
    lines: Words | None = None,
    seed: int | None = None,
    device: str = "auto",
) -> list[LanguageModel]:
    """A run's training once more, on some of its lines.

    With all lines it ends with the same bits as the run, on one kind of CPU.

    Args:
        kept: False for a line of ``lines_of`` that is left out.
        at: the steps, ascending, after which the model is asked for.
        lines: lines that are read in place of the run's own, one for each; for example with labels
            written into them (``disfluencies.with_labels``).
        seed: the seed of other first weights and another order; by default the run's own.

    Returns:
        The model after each of these steps, in evaluation mode.

    Raises:
        UserError: as ``lines_of``; or no line is left.
        DivergedError: its loss or weights are no numbers any more.
    """
    pool = lines_of(run)
    words = pool if lines is None else lines
    if not kept.any():
        raise UserError(f"no line of {run.name} is left to train on: keep at least one")
    if seed is not None:
        run = copy(run)
        run.config = replace(run.config, seed=seed)
    with threads(run.config.threads):
        trainer = Trainer.at_start(run, choose_device(device))
        place = trainer.model.device
        trainer.batches = _Lines(run.config, run.language, place, words, kept)
        trained = []
        for step in at:
            while trainer.step < step:
                if not trainer.batches[trainer.step].groups:  # none of its lines is left
                    trainer.step += 1
                    continue
                value = trainer.advance()
                if not torch.isfinite(value):
                    raise DivergedError(f"{run.name} diverged without some of its lines")
            trained.append(deepcopy(trainer.whole_model).eval())
    return trained
