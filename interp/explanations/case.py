"""What is explained: one verdict of a model on one word, and all that a method may look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric, log_odds_at
from interp.explanations.games import Game
from interp.model import HookedModel

Values = Float[np.ndarray, " time"]
"""One number per symbol, BOS excluded. If the method is signed, positive speaks for "in the
language"."""


@dataclass(frozen=True)
class Case:
    """One verdict of a model, and all that a method may look at to explain it.

    Attributes:
        game: hides symbols; its score is the probability of "in the language".
        model: the model, for methods that look inside it (gradients and attention).
        token: the id of the token whose logit is the verdict.
        at: where this logit is read; BOS is position 0.
        symbols: the token ids that words are made of.
        truth: the game whose score is membership in the language, with the same replacements; None
            if membership is not known.
        rationale: the positions that decide, from 0 and without BOS, by a published rule; None if
            there is no rule.
        samples: how many coalitions (sets of symbols that are kept) a sampling method may ask for.
        bos: the id of the token before every word.
        softmax: whether the model's tokens exclude each other, as in a language model. If not,
            every token is judged alone.
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
    softmax: bool = False

    @property
    def metric(self) -> Metric:
        """The verdict as log odds of ``token`` at ``at``: its logit, unless ``softmax``."""
        return log_odds_at(self.token, self.at, self.softmax)

    @property
    def word(self) -> Int[Tensor, " pos"]:
        """The token ids of the word, BOS first."""
        return self._tokens(self.game.word)

    @property
    def baselines(self) -> Int[Tensor, "draws pos"]:
        """The word with every symbol hidden, BOS first."""
        return self._tokens(self.game.replacements)

    def _tokens(self, ids: Int[np.ndarray, "*any time"]) -> Int[Tensor, "*any pos"]:
        width = [(0, 0)] * (ids.ndim - 1) + [(1, 0)]
        device = getattr(self.model, "device", None)
        return torch.as_tensor(np.pad(ids, width, constant_values=self.bos), device=device)
