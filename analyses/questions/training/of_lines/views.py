"""A training as the methods see it: the gradients of values and of lines, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from torch import Tensor

from analyses.answers import Progress
from analyses.questions.training.of_lines.values import losses_of_each, sampled_of_each
from interp.influence.ekfac import EKFAC
from interp.influence.gradients import Gradients
from interp.influence.methods import cosine, dot, fisher, tracin
from models.base import LanguageModel
from models.errors import UserError
from models.languages import Words
from models.runs.run import Run
from models.training.trainer import learning_rate

Values = Callable[[LanguageModel], Iterator[Float[Tensor, ""]]]
"""Numbers of a model, each with a graph of its own."""
Found = dict[tuple[str, str], Float[np.ndarray, "target line"]]
"""Each line's addition to each value, by model ("trained", "untrained") and method."""

DOT, COSINE, TRACIN = "gradient dot product", "gradient cosine", "TracIn"
CLAIMED = "EK-FAC"
"""The method of which something is claimed, whatever the numbers are."""
METHODS = (DOT, COSINE, "Fisher", CLAIMED, TRACIN)


def rates(run: Run, steps: Sequence[int]) -> list[float]:
    """For each checkpoint the learning rates of the steps up to the next one, summed; no step comes
    after the last one, so its rate is 0."""
    return [
        sum((learning_rate(run.config, step) for step in range(one, other)), 0.0)
        for one, other in pairwise([*steps, steps[-1]])
    ]


@dataclass(frozen=True)
class Training:
    """The models of a training.

    Attributes:
        steps: the steps of its checkpoints, ascending; the first is 0.
        models: the models after these steps.
        lines: the lines that were read; labels may be written into them.
        seed: seed of the labels that are drawn from a model's own answers.
    """

    run: Run
    steps: Sequence[int]
    models: Sequence[LanguageModel]
    lines: Words
    seed: int = 0

    def influences(self, values: Values, told: Progress) -> Found:
        """Each line's addition to each value; last of all, [line, line], its addition to the log
        likelihood of each line.

        Args:
            told: called with how many checkpoints are done, of how many, and what is being done.
        """
        scores: Found = {}

        def checkpoints() -> Iterator[tuple[float, Gradients, Gradients]]:
            weights = rates(self.run, self.steps)
            for index, (rate, model) in enumerate(zip(weights, self.models, strict=True)):
                told(index, len(self.steps), f"gradients at step {self.steps[index]}")
                model.requires_grad_(True)
                lines = Gradients.of_each(model, losses_of_each(self.run, model, self.lines))
                targets = Gradients.of_each(model, values(model)).and_minus(lines)
                for name, at in (("untrained", 0), ("trained", len(self.steps) - 1)):
                    if index == at:
                        scores.update(self._at(name, model, targets, lines))
                yield rate, targets, lines

        scores["trained", TRACIN] = tracin(checkpoints()).cpu().numpy()
        # The control of what adds up over the training: all of it at the first weights.
        scores["untrained", TRACIN] = sum(rates(self.run, self.steps)) * scores["untrained", DOT]
        return scores

    def _at(self, name: str, model: LanguageModel, targets: Gradients, lines: Gradients) -> Found:
        """The methods that look at one model."""
        try:
            fitted = EKFAC(model, sampled_of_each(self.run, model, self.lines, self.seed))
        except ValueError as error:
            raise UserError(f"{self.run.path}, {name}: {error}: ask of an earlier --step") from None
        made = (
            dot(targets, lines),
            cosine(targets, lines),
            fisher(targets, lines, fitted.sampled),
            fitted(targets, lines),
        )
        return {
            (name, method): link.cpu().numpy() for method, link in zip(METHODS, made, strict=False)
        }
