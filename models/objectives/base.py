"""What a model is taught, and how its answers are judged.

An objective says what a batch is, what each answer costs, and which tokens may follow according to
a model's answer. Training and evaluation know no objective by name. A new objective is a file
beside this one and a line in ``registry``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models.languages import END, Language, Vocabulary, Word, Words
from models.objectives.readout import Readout


@dataclass(frozen=True)
class Batch:
    """What a training step needs.

    Attributes:
        tokens: model input, BOS first, [batch, pos].
        target: 1 where a token may come next, [batch, pos, d_vocab].
        weight: 1 where the teacher speaks, else 0, [batch, pos, d_vocab].
    """

    tokens: Int[Tensor, "batch pos"]
    target: Float[Tensor, "batch pos d_vocab"]
    weight: Float[Tensor, "batch pos d_vocab"]

    @classmethod
    def of(
        cls,
        words: Words,
        target: Bool[np.ndarray, "batch pos d_vocab"],
        weight: Bool[np.ndarray, "batch pos d_vocab"],
        device: torch.device | str,
    ) -> Batch:
        """The words with what the teacher says of them, on a device."""
        return cls(
            torch.as_tensor(words.tokens),
            torch.as_tensor(target, dtype=torch.float32),
            torch.as_tensor(weight, dtype=torch.float32),
        ).to(device)

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device, for which nobody waits."""
        parts = (self.tokens, self.target, self.weight)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))


class Objective(ABC):
    """What is taught of a language.

    At every position a model says of each token, independently, whether it may come next. An
    objective decides which of these answers the teacher gives. One that asks for another kind of
    answer, as for one distribution over all tokens, overrides ``losses`` and ``probabilities``, and
    stands in ``registry.SOFTMAX``.

    Attributes:
        name: the value of ``TrainConfig.objective``.
        taught: what a word teaches, in a few words.
        asks: what a set of tokens says of a position, in two or three words.
        causal: whether it asks what comes next. No position may then see ahead.
        alike_in_prefixes: whether its answers on a prefix are the same whatever follows. A word
            that is the beginning of another can then be read as part of it.
        verdict_alone: whether the verdict on a word is all that it teaches.
        members_alone: whether only words of the language are taught.
        hides: whether symbols of a word are hidden, and asked for where they stand.
        of_pairs: whether only targets are taught. The language must then be one of pairs.
        tags: whether a target is taught as the tags of its source.
    """

    name: ClassVar[str]
    taught: ClassVar[str]
    asks: ClassVar[str] = "may follow"
    causal: ClassVar[bool]
    alike_in_prefixes: ClassVar[bool]
    verdict_alone: ClassVar[bool]
    members_alone: ClassVar[bool] = False
    hides: ClassVar[bool] = False
    of_pairs: ClassVar[bool] = False
    tags: ClassVar[bool] = False

    def check(self, language: Language, lengths: Sequence[int]) -> None:
        """Checks that a language can be taught so, in words of these lengths.

        Raises:
            UserError: it cannot.
        """
        if self.of_pairs:
            language.vocabulary.border()

    def prepared(self, words: Words, vocabulary: Vocabulary, rng: np.random.Generator) -> Words:
        """The words of a training as ``batch`` takes them, with what chance decides about each."""
        return words

    @abstractmethod
    def batch(
        self,
        language: Language,
        words: Words,
        readout: Readout = "last",
        device: torch.device | str = "cpu",
    ) -> Batch:
        """The words with everything that the teacher says about them.

        Args:
            readout: where the model's verdicts are read.
        """

    def truth(
        self,
        language: Language,
        words: Words,
        readout: Readout = "last",
        device: torch.device | str = "cpu",
    ) -> Batch:
        """The words with what a flawless model says about them; here what the teacher says."""
        return self.batch(language, words, readout, device)

    @abstractmethod
    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        """The tokens about which the teacher gives answers, in the vocabulary's order.

        What a model says about other tokens means nothing.
        """

    def losses(
        self, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """What each answer costs: binary cross-entropy in nats, 0 where the teacher is silent."""
        return binary_cross_entropy_with_logits(
            logits, batch.target, batch.weight, reduction="none"
        )

    def loss(self, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch) -> Float[Tensor, ""]:
        """The mean of ``losses`` over the answers that the teacher gives, in nats."""
        return self.losses(logits, batch).sum() / batch.weight.sum()

    def allowed(self, logits: Float[Tensor, "*pos d_vocab"]) -> Bool[Tensor, "*pos d_vocab"]:
        """Which tokens may follow according to the model."""
        return logits > 0

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """What a model must allow to say that a word is in the language: after how many symbols,
        and which token."""
        return [(len(word), END)]

    def true_tokens(self, language: Language, word: Word, at: int) -> frozenset[str]:
        """What a flawless model allows after so many symbols of a word."""
        return language.next_symbols(word[:at])

    def begins(self, word: Sequence[str]) -> int:
        """After how many symbols of a word the teacher first speaks; what a model says before means
        nothing."""
        return 0

    def probabilities(self, logits: Float[Tensor, "*pos d_vocab"]) -> Float[Tensor, "*pos d_vocab"]:
        """How sure the model is that each token may come next, token by token."""
        return logits.sigmoid()

    def log_probabilities(
        self, logits: Float[Tensor, "*pos d_vocab"], vocabulary: Vocabulary
    ) -> Float[Tensor, "*pos d_vocab"]:
        """How likely each token comes next, for words that are drawn from the model.

        A model that says of each token whether it may come gives each its share of all of them.
        Tokens that the model was taught nothing about have probability 0.
        """
        taught = torch.zeros(len(vocabulary), dtype=torch.bool, device=logits.device)
        taught[[vocabulary.ids[token] for token in self.tokens(vocabulary)]] = True
        may = torch.nn.functional.logsigmoid(logits).masked_fill(~taught, -torch.inf)
        return may.log_softmax(dim=-1)

    def exact(
        self, logits: Float[Tensor, "batch pos d_vocab"], truth: Batch
    ) -> Bool[np.ndarray, " batch"]:
        """True for the words of which the model gets every answer of ``truth`` right."""
        right = (self.allowed(logits) == (truth.target > 0)) | (truth.weight == 0)
        return right.all(dim=2).all(dim=1).cpu().numpy()
