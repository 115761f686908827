"""Growing words: a model's logits after each, without computing again what came before."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.base import LanguageModel
from models.errors import UserError
from models.transformer.incremental import IncrementalTransformer
from models.transformer.memory import Memory


class Growing(ABC):
    """A batch of growing words.

    Attributes:
        tokens: the words so far, BOS first; [rows, pos].
        calls: how often the model was asked for a row's next token.
        computed: positions that the model computed, over all rows.
    """

    def __init__(self, model: LanguageModel, tokens: Int[Tensor, "rows pos"]) -> None:
        if model.config.sees_ahead:
            raise UserError(
                "an encoder sees the whole word at once, and cannot go on with one: generate from "
                "a model with a causal mask"
            )
        self.model, self.tokens = model, tokens
        self.calls = self.computed = 0

    @abstractmethod
    def logits(self) -> Float[Tensor, "rows d_vocab"]:
        """The model's logits after each word. Call it once per length."""

    def go_on(self, parents: Int[Tensor, " rows"], token: Int[Tensor, " rows"]) -> None:
        """Makes each new word of an old one, by its row, and one token more."""
        self.tokens = torch.cat([self.tokens[parents], token[:, None]], dim=1)


class _Anew(Growing):
    """Reads every word from its beginning each time; for models that keep nothing."""

    @torch.no_grad()
    def logits(self) -> Float[Tensor, "rows d_vocab"]:
        self.calls += len(self.tokens)
        self.computed += self.tokens.numel()
        logits: Tensor = self.model(self.tokens)
        return logits[:, -1]


class _Remembering(Growing):
    """Keeps the keys and values of all earlier positions (a key-value cache)."""

    def __init__(
        self, model: IncrementalTransformer, tokens: Int[Tensor, "rows pos"], longest: int
    ) -> None:
        super().__init__(model, tokens)
        self._memory = Memory(model, len(tokens), longest)
        self._read = 0

    @torch.no_grad()
    def logits(self) -> Float[Tensor, "rows d_vocab"]:
        self.calls += len(self.tokens)
        while True:
            logits = self._memory.step(self.tokens[:, self._read])
            self._read += 1
            self.computed += len(self.tokens)
            if self._read == self.tokens.shape[1]:
                return logits

    def go_on(self, parents: Int[Tensor, " rows"], token: Int[Tensor, " rows"]) -> None:
        super().go_on(parents, token)
        self._memory.choose(parents)


def growing(model: LanguageModel, tokens: Int[Tensor, "rows pos"], longest: int) -> Growing:
    """Words that may grow to ``longest`` positions, BOS among them.

    Raises:
        UserError: the model is an encoder, or its positions do not reach so far.
    """
    if isinstance(model, IncrementalTransformer) and not model.config.sees_ahead:
        return _Remembering(model, tokens, longest)
    return _Anew(model, tokens)
