"""What is explained: one verdict of a model on one word, and all that a method may look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric, logit_at
from interp.explanations.games import Game
from interp.model import HookedModel

Values = Float[np.ndarray, " time"]
"""One number a symbol; positive speaks for "in the language" where the method is signed."""


@dataclass(frozen=True)
class Case:
    """One verdict of a model, and all that a method may look at to explain it.

    Attributes:
        game: whose score is the probability of "in the language".
        model: looked into by gradients and attention.
        token: whose logit is the verdict.
        at: where the logit is read; BOS is position 0.
        symbols: the token ids that words are made of.
        truth: the game of the language's own membership, under the same replacements.
        rationale: the 0-based positions that decide, by a published rule.
        samples: coalitions that a sampling method may ask for.
        bos: the token before every word.
    """

    game: Game
    model: HookedModel
    token: int
    at: int
    symbols: Int[np.ndarray, " symbol"]
    truth: Game | None = None
    rationale: tuple[int, ...] | None = None
    samples: int = 512
    bos: int = 0

    @property
    def metric(self) -> Metric:
        """The log odds of the verdict."""
        return logit_at(self.token, self.at)

    @property
    def word(self) -> Int[Tensor, " pos"]:
        """BOS first."""
        return self._tokens(self.game.word)

    @property
    def baselines(self) -> Int[Tensor, "draws pos"]:
        """The word with every symbol hidden, BOS first."""
        return self._tokens(self.game.replacements)

    def _tokens(self, ids: Int[np.ndarray, "*any time"]) -> Int[Tensor, "*any pos"]:
        width = [(0, 0)] * (ids.ndim - 1) + [(1, 0)]
        device = getattr(self.model, "device", None)
        return torch.as_tensor(np.pad(ids, width, constant_values=self.bos), device=device)
