"""The contract of an objective: what a model is taught, and how its answers are judged.

An objective says what a batch is, what each answer costs, and which tokens may follow according to
a model's answer. Training and evaluation know no objective by name. A new objective is a file
beside this one and a line in ``registry``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models.languages import END, END_ID, Language, Vocabulary, Word, Words
from models.objectives.readout import Readout


@dataclass(frozen=True)
class Batch:
    """The input and the answers of a training step.

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
    ) -> Batch:
        """The words with what the teacher says of them."""
        return cls(
            torch.as_tensor(words.tokens),
            torch.as_tensor(target, dtype=torch.float32),
            torch.as_tensor(weight, dtype=torch.float32),
        )

    def to(self, device: torch.device | str) -> Batch:
        """The same on a device, for which nobody waits."""
        parts = (self.tokens, self.target, self.weight)
        return Batch(*(part.to(device, non_blocking=True) for part in parts))


@dataclass(frozen=True)
class Outcome:
    """The answers of a model on words.

    Attributes:
        logits: the logits at every position.
        tokens: the words, BOS first.
        at: the positions where the verdicts are read.
        vocabulary: the model's vocabulary.
    """

    logits: Float[Tensor, "*batch pos d_vocab"]
    tokens: Int[Tensor, "*batch pos"]
    at: Int[Tensor, "*#batch"]
    vocabulary: Vocabulary


Forward = Callable[[Int[Tensor, "batch pos"]], Float[Tensor, "batch pos d_vocab"]]
"""A model that is given tokens."""


class Objective(ABC):
    """A teacher of a language: the answers that it gives, and their cost.

    At every position a model says of each token, independently, whether it may come next. An
    objective decides which of these answers the teacher gives. One that asks for another kind of
    answer, as for one distribution over all tokens, overrides ``losses`` and ``probabilities``, and
    says so in ``registry.Entry.output``.

    Attributes:
        name: the value of ``TrainConfig.objective``.
        caption: what is taught, in a sentence.
        taught: what a word teaches, in a few words.
        asks: what a set of tokens says of a position, in two or three words.
        outcome: what the logits are; in braces "at", where the verdict on a word is read.
        blind: why a causal mask shows too little; said of one that asks what stands at a position.
        alike_in_prefixes: whether its answers on a prefix are the same whatever follows. A word
            that is the beginning of another can then be read as part of it.
        verdict_alone: whether the verdict on a word is all that it teaches.
        members_alone: whether only words of the language are taught.
        hides: whether symbols of a word are hidden, and asked for where they stand.
        of_pairs: whether only targets are taught. The language must then be one of pairs.
        tags: whether a target is taught as the tags of its source.
    """

    name: ClassVar[str]
    caption: ClassVar[str]
    taught: ClassVar[str]
    asks: ClassVar[str] = "may follow"
    outcome: ClassVar[str] = "logits of what may follow; <end> at {at} is the verdict"
    blind: ClassVar[str]
    alike_in_prefixes: ClassVar[bool] = False
    verdict_alone: ClassVar[bool] = False
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

    def batch(
        self,
        language: Language,
        words: Words,
        readout: Readout = "last",
        device: torch.device | str = "cpu",
    ) -> Batch:
        """The words with everything that the teacher says about them.

        Args:
            readout: the place where the model's verdicts are read.
        """
        return self._batch(language, words, readout).to(device)

    def truth(
        self,
        language: Language,
        words: Words,
        readout: Readout = "last",
        device: torch.device | str = "cpu",
    ) -> Batch:
        """The words with what a flawless model says about them."""
        return self._truth(language, words, readout).to(device)

    @abstractmethod
    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """``batch``, on the CPU."""

    def _truth(self, language: Language, words: Words, readout: Readout) -> Batch:
        """``truth``, on the CPU; here what the teacher says."""
        return self._batch(language, words, readout)

    # -- what a model says ------------------------------------------------------------------------

    def read(
        self, tokens: Int[Tensor, "batch pos"], vocabulary: Vocabulary, forward: Forward
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """The logits of a model for these tokens; here it reads them as they are."""
        return forward(tokens)

    def margins(self, made: Outcome) -> Float[Tensor, "*batch"]:
        """The verdict on each word as a logit: above 0 accepts. Here it is END's."""
        return made.logits[..., END_ID].take_along_dim(made.at[..., None], dim=-1)[..., 0]

    def words_to_read(self, word: Sequence[str], vocabulary: Vocabulary, sees_ahead: bool) -> Words:
        """The words that a model has to read to say what follows every prefix of a word: the word
        itself, or, where positions see ahead, every prefix.

        Raises:
            UserError: the word holds an unknown symbol.
        """
        prefixes = [word[:end] for end in range(len(word) + 1)]
        return vocabulary.words(prefixes if sees_ahead else [word])

    def after_prefixes(
        self, logits: Float[Tensor, "batch pos d_vocab"], at: Int[Tensor, " batch"]
    ) -> Float[Tensor, "prefix d_vocab"]:
        """The logits after every prefix of a word, from the logits of ``words_to_read``.

        Args:
            at: the positions where the verdicts are read.
        """
        return logits[0] if len(logits) == 1 else logits[torch.arange(len(logits)), at]

    @abstractmethod
    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        """The tokens about which the teacher gives answers, in the vocabulary's order.

        What a model says about other tokens means nothing.
        """

    def losses(
        self, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """The cost of each answer: binary cross-entropy in nats, 0 where the teacher is silent."""
        return binary_cross_entropy_with_logits(
            logits, batch.target, batch.weight, reduction="none"
        )

    def loss(self, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch) -> Float[Tensor, ""]:
        """The mean of ``losses`` over the answers that the teacher gives, in nats."""
        return self.losses(logits, batch).sum() / batch.weight.sum()

    def allowed(self, logits: Float[Tensor, "*pos d_vocab"]) -> Bool[Tensor, "*pos d_vocab"]:
        """The tokens that may follow according to the model."""
        return logits > 0

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """The answers that a model must allow to say that a word is in the language: after how
        many symbols, and which token."""
        return [(len(word), END)]

    def true_tokens(self, language: Language, word: Word, at: int) -> frozenset[str]:
        """The tokens that a flawless model allows after so many symbols of a word."""
        return language.next_symbols(word[:at])

    def taught_after(self, word: Sequence[str]) -> range:
        """The numbers of symbols of a word after which the teacher speaks; what a model says
        elsewhere means nothing."""
        return range(len(word) + 1)

    def probabilities(self, logits: Float[Tensor, "*pos d_vocab"]) -> Float[Tensor, "*pos d_vocab"]:
        """The model's probability that each token may come next, token by token."""
        return logits.sigmoid()

    def log_probabilities(
        self, logits: Float[Tensor, "*pos d_vocab"], vocabulary: Vocabulary
    ) -> Float[Tensor, "*pos d_vocab"]:
        """Log-probabilities of the next token, for words that are drawn from the model.

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
