"""The next symbol of the target, given the source: the teacher of an encoder-decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from models.languages import BORDER, Language, Vocabulary, Words
from models.objectives.base import Batch, Outcome
from models.objectives.language_model import NextToken
from models.objectives.next_symbols import NextSymbols
from models.objectives.readout import Readout


class NextOfTarget(NextToken):
    """The token that comes next, after the border of a pair and after each symbol of its target.

    It is a language model of the target on the condition of the source: log P(target | source) is
    the sum over the target (Sutskever et al. 2014). Any model that reads from left to right can be
    taught it; an encoder-decoder can be taught nothing else.
    """

    name = "sequence-to-sequence"
    caption = "The one symbol that comes next in the target of a pair, given its source: a softmax."
    taught = "the next token of the target, given the source"
    outcome = "logits of what may follow in the target"
    of_pairs = True

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """One answer at the border and at each position of the target, END after its last symbol.

        Raises:
            UserError: the language has no pairs.
        """
        batch = super()._batch(language, words, readout)
        mask = _after_border(batch.tokens, language.vocabulary.border())
        return replace(batch, weight=batch.weight * mask, target=batch.target * mask)

    def _truth(self, language: Language, words: Words, readout: Readout) -> Batch:
        batch = NextSymbols().batch(language, words, readout)
        mask = _after_border(batch.tokens, language.vocabulary.border())
        return replace(batch, weight=batch.weight * mask)

    def margins(self, made: Outcome) -> Float[Tensor, "*batch"]:
        """The least logit of the tokens after the border; -inf for a word without one."""
        mask = (made.tokens == made.vocabulary.ids[BORDER]).cumsum(dim=-1) > 0
        shown = made.logits.masked_fill(~mask[..., None], torch.inf)
        least = super().margins(replace(made, logits=shown))
        return least.masked_fill(~mask.any(dim=-1), -torch.inf)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return tuple(token for token in super().tokens(vocabulary) if token != BORDER)

    def taught_after(self, word: Sequence[str]) -> range:
        return range([*word, BORDER].index(BORDER) + 1, len(word) + 1)

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """Every token of the target; of a word without a border there is none to ask for."""
        taught = self.taught_after(word)
        return [pair for pair in super().needed(word) if pair[0] in taught]

    def log_probabilities(
        self, logits: Float[Tensor, "*pos d_vocab"], vocabulary: Vocabulary
    ) -> Float[Tensor, "*pos d_vocab"]:
        """The model's log-probabilities, without BOS and the border, which no target has."""
        never = torch.zeros(len(vocabulary), dtype=torch.bool, device=logits.device)
        never[[0, vocabulary.border()]] = True
        return logits.masked_fill(never, -torch.inf).log_softmax(dim=-1)


def _after_border(tokens: Tensor, border: int) -> Float[Tensor, "batch pos 1"]:
    """1 at the border and after it."""
    return (tokens == border).cumsum(dim=1).clamp(max=1)[..., None].float()
