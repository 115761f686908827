"""Words of the training window that training did not draw, as the objective teaches them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from analyses.words import ANALYSIS_SEED
from interp.training.curvature import Loss, Weights
from models.base import LanguageModel
from models.languages import Words
from models.objectives.base import Batch
from models.runs.run import Run

WORDS = 128


@dataclass(frozen=True)
class HeldOut:
    """A batch of words.

    Attributes:
        words: the words, as the objective takes them.
        batch: the same words, with what the teacher says about them.
        loss: the loss of logits, in nats per answer.
    """

    words: Words
    batch: Batch
    loss: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, run: Run, count: int = WORDS, seed: int = 0) -> HeldOut:
        """Lengths and membership are drawn as in training, from a stream of random numbers of its
        own. Short words are few: training may have drawn the same ones.
        """
        rng = np.random.default_rng([ANALYSIS_SEED, seed])
        language, config, taught = run.language, run.config, run.objective
        label = True if taught.members_alone else None
        lengths = language.lengths(config.max_n)
        drawn = language.sample(rng, count, lengths, label, "test", config.spread).words
        words = taught.prepared(drawn, language.vocabulary, rng)
        batch = taught.batch(language, words, config.model.readout)
        return cls(words, batch, lambda logits: taught.loss(logits, batch))

    @property
    def inside(self) -> Bool[Tensor, "batch pos"]:
        """True on BOS and the symbols of each word."""
        lengths = torch.as_tensor(self.words.lengths)
        return torch.arange(self.batch.tokens.shape[1]) <= lengths[:, None]


def as_function(model: LanguageModel, held: HeldOut, run: Run) -> tuple[Loss, Weights]:
    """The loss of a model as a function of its weights, in float64, and the weights.

    The model itself becomes one of float64.
    """
    model.double()
    batch = Batch(held.batch.tokens, held.batch.target.double(), held.batch.weight.double())

    def loss(weights: Weights) -> Tensor:
        logits = torch.func.functional_call(model, dict(weights), (batch.tokens,))
        return run.objective.loss(logits, batch)

    return loss, {name: weight.detach() for name, weight in model.named_parameters()}
