"""The next token of words that are drawn: the teacher of a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from models.languages import BOS_ID, END, Language, Vocabulary, Words
from models.objectives.base import Batch, Objective, Outcome
from models.objectives.next_symbols import NextSymbols
from models.objectives.readout import LEAST, Readout


class NextToken(Objective):
    """The token that comes next, after BOS and after every symbol of a word of the language.

    The answers of a model are one distribution over all tokens (softmax), and cost the
    cross-entropy. Its logits are log(p / ``LEAST``): above 0 where a token is likelier than that.

    The words are those of the training window: a length is drawn by ``TrainConfig.spread``, then a
    word of this length by the language (``FormalLanguage.next_probabilities``).
    """

    name = "language-model"
    caption = "The one symbol that comes next, in words of the language: a softmax."
    taught = "the next token of words of the language"
    members_alone = True

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """One answer at each position of a word, END after its last symbol.

        Args:
            words: words of the language.
        """
        inside = np.arange(words.following.shape[1]) <= words.lengths[:, None]
        target = np.zeros((*inside.shape, len(language.vocabulary)), dtype=bool)
        np.put_along_axis(target, words.following[..., None], inside[..., None], axis=2)
        return Batch.of(words, target, target)

    def _truth(self, language: Language, words: Words, readout: Readout) -> Batch:
        """The tokens that may come next, of words of the language and of others."""
        return NextSymbols().batch(language, words, readout)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return vocabulary.tokens[BOS_ID + 1 :]

    def losses(
        self, logits: Float[Tensor, "batch pos d_vocab"], batch: Batch
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Cross-entropy in nats at the token that does come next, 0 elsewhere."""
        return -(logits + float(np.log(LEAST))) * batch.weight

    def margins(self, made: Outcome) -> Float[Tensor, "*batch"]:
        """The least logit of all tokens of a word, END among them: a model that reads no word
        outside the language in training says nothing to the point after a symbol that may not
        come."""
        came = made.logits[..., :-1, :].take_along_dim(made.tokens[..., 1:, None], dim=-1)[..., 0]
        past = torch.arange(came.shape[-1], device=came.device) >= made.at[..., None]
        end = super().margins(made)[..., None]
        return torch.cat([came.masked_fill(past, torch.inf), end], dim=-1).amin(dim=-1)

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """Every token of the word: after a wrong one a model was never taught."""
        return [*enumerate(word), (len(word), END)]

    def probabilities(self, logits: Float[Tensor, "*pos d_vocab"]) -> Float[Tensor, "*pos d_vocab"]:
        """Probabilities of the next token; they sum to 1."""
        return logits.softmax(dim=-1)

    def log_probabilities(
        self, logits: Float[Tensor, "*pos d_vocab"], vocabulary: Vocabulary
    ) -> Float[Tensor, "*pos d_vocab"]:
        """The model's log-probabilities, without BOS, which never comes next."""
        begins = torch.arange(len(vocabulary), device=logits.device) == BOS_ID
        return logits.masked_fill(begins, -torch.inf).log_softmax(dim=-1)
