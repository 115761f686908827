"""A case to explain: one verdict of a model on one word, and all that a method may look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from interp.causal.metrics import Metric, log_odds_at
from interp.explanations.games import Game
from interp.explanations.saliency import MOST_STEPS
from interp.model import HookedModel

Values = Float[np.ndarray, "*scales time"]
"""One number per symbol, BOS excluded, for each scale of a method that has scales. If the method is
signed, positive speaks for "in the language"."""


class Probability(nn.Module):
    """The verdict as a probability: a metric of log odds through a sigmoid.

    It is a module because DeepLift has a rule for the sigmoid, and looks for it among the modules.
    """

    def __init__(self, log_odds: Metric) -> None:
        super().__init__()
        self.log_odds, self.sigmoid = log_odds, nn.Sigmoid()

    def forward(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        probability: Tensor = self.sigmoid(self.log_odds(logits))
        return probability


@dataclass(frozen=True)
class Case:
    """One verdict of a model, and all that a method may look at to explain it.

    Attributes:
        game: hides symbols; its score is the log odds of "in the language", and its link
            ``games.on_both_scales``.
        model: the model, for methods that look inside it (gradients and attention).
        token: the id of the token whose logit is the verdict.
        at: the position where this logit is read; BOS is position 0.
        symbols: the token ids that words are made of.
        truth: the game whose score is membership in the language, with the same replacements; None
            if membership is not known.
        rationales: the sets of positions that decide, from 0 and without BOS, by a published rule;
            each is right by itself. None if there is no rule.
        effects: the rate at which another symbol in a place turns the membership around, 0 to 1;
            negative for a word outside the language. None if membership is not known.
        samples: number of coalitions (sets of symbols that are kept) that a sampling method may ask
            for.
        steps: the largest number of points on the line from each baseline at which integrated
            gradients may take the gradient.
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
    rationales: tuple[tuple[int, ...], ...] | None = None
    effects: Float[np.ndarray, " time"] | None = None
    samples: int = 512
    steps: int = MOST_STEPS
    bos: int = 0
    softmax: bool = False

    @property
    def metrics(self) -> dict[str, Metric]:
        """The verdict on each of the ``games.SCALES``; its log odds are those of ``token``, which
        are its logit, unless ``softmax``."""
        log_odds = log_odds_at(self.token, self.at, self.softmax)
        return {"probability": Probability(log_odds), "log odds": log_odds}

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
