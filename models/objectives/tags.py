"""A tag for every symbol: word classification by one linear layer that all positions share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.errors import UserError
from models.languages import BORDER, END_ID, Language, Transduction, Vocabulary, Word, Words
from models.objectives.base import Batch, Forward, Outcome
from models.objectives.language_model import NextToken
from models.objectives.readout import Readout


class Tags(NextToken):
    """The tag of each symbol of a source: the symbol of the target in the same place.

    The target of a pair is read as the tags of its source: in ``depths`` how many brackets are
    open, in ``reverse`` the symbol at the same distance from the other end, in ``sort`` the symbol
    of that rank. So tags are symbols of the vocabulary, and the layer that says them is the
    unembedding. The model sees the source alone (``sources_alone``). The answers at a symbol are
    one distribution over all tokens, and cost the cross-entropy.
    """

    name = "tags"
    caption = "The symbol of the target in the place of each symbol of the source, as its tag."
    taught = "the tag of each symbol of a source"
    asks = "its tag"
    outcome = "logits of the tags of each symbol of the source"
    blind = "are asked for given the whole source, and a causal mask does not show what comes later"
    of_pairs = True
    tags = True

    def check(self, language: Language, lengths: Sequence[int]) -> None:
        """Checks also that the targets of some pairs are as long as their sources."""
        super().check(language, lengths)
        self.batch(language, language.sample(np.random.default_rng(0), 64, lengths, True).words)

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """One answer at each symbol of a source.

        Args:
            words: pairs of the language.

        Raises:
            UserError: the language has no pairs, or a target is not as long as its source.
        """
        tagged = _Tagged.of(torch.as_tensor(words.tokens), language.vocabulary.border())
        if not tagged.fits.all():
            raise UserError(
                f"{language.name} has pairs whose target is not as long as the source, so it is "
                "no row of tags: choose depths, copy, reverse or sort, or another objective"
            )
        return tagged.batch(len(language.vocabulary))

    def _truth(self, language: Language, words: Words, readout: Readout) -> Batch:
        """The tags that are written, of all pairs whose target is as long as the source."""
        tagged = _Tagged.of(torch.as_tensor(words.tokens), language.vocabulary.border())
        return tagged.batch(len(language.vocabulary))

    def read(
        self, tokens: Int[Tensor, "batch pos"], vocabulary: Vocabulary, forward: Forward
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """The logits of sources alone; 0 but at their symbols."""
        pairs = _Tagged.of(tokens, vocabulary.border())
        return forward(pairs.sources_alone).masked_fill(~pairs.source[..., None], 0.0)

    def margins(self, made: Outcome) -> Float[Tensor, "*batch"]:
        """The least lead of a written tag over all others, as a difference of logits; -inf for what
        is no pair of equal halves."""
        pairs, logits = _Tagged.of(made.tokens, made.vocabulary.border()), made.logits
        tags = pairs.tags[..., None]
        scores = logits.gather(-1, tags)
        lead = scores - logits.scatter(-1, tags, -torch.inf).amax(dim=-1, keepdim=True)
        least = lead[..., 0].masked_fill(~pairs.source, torch.inf).amin(dim=-1)
        return least.masked_fill(~pairs.fits, -torch.inf)

    def words_to_read(self, word: Sequence[str], vocabulary: Vocabulary, sees_ahead: bool) -> Words:
        """The word: all is said about the whole of it."""
        return vocabulary.words([word])

    def allowed(self, logits: Float[Tensor, "*pos d_vocab"]) -> Bool[Tensor, "*pos d_vocab"]:
        """The likeliest tag; none where the model says nothing, and all logits are alike."""
        most, least = logits.amax(dim=-1, keepdim=True), logits.amin(dim=-1, keepdim=True)
        return (logits == most) & (logits > least)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return tuple(symbol for symbol in vocabulary.symbols if symbol != BORDER)

    def true_tokens(self, language: Language, word: Word, at: int) -> frozenset[str]:
        """The tag of a symbol; none past the source, or if it is no source."""
        source = word[: word.index(BORDER)] if BORDER in word else word
        if at > len(source) or not isinstance(language, Transduction):
            return frozenset()
        right = set(source) <= set(language.source.vocabulary.symbols)
        if not (right and language.source.contains(source)):
            return frozenset()
        return frozenset({language.target(source)[at - 1]})

    def taught_after(self, word: Sequence[str]) -> range:
        return range(1, [*word, BORDER].index(BORDER) + 1)

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """Every tag of the pair, at its symbol; of what is no pair of equal halves there is none to
        ask for."""
        half = len(word) // 2
        right = BORDER in word and list(word).index(BORDER) == half and len(word) == 2 * half + 1
        return list(enumerate(word[half + 1 :], 1)) if right else []


@dataclass(frozen=True)
class _Tagged:
    """Pairs as sources and their tags.

    Attributes:
        tokens: the pairs, BOS first.
        source: True at each symbol of a source.
        tags: at each symbol of a source the token in its place of the target; elsewhere whatever.
        fits: whether source and target are equally long, and not empty.
    """

    tokens: Int[Tensor, "*batch pos"]
    source: Bool[Tensor, "*batch pos"]
    tags: Int[Tensor, "*batch pos"]
    fits: Bool[Tensor, "*batch"]

    @classmethod
    def of(cls, tokens: Int[Tensor, "*batch pos"], border: int) -> _Tagged:
        """
        Args:
            border: the id of the border.
        """
        place = torch.arange(tokens.shape[-1], device=tokens.device)
        after = (tokens == border).cumsum(dim=-1) > 0
        source = ~after & (tokens != END_ID) & (place > 0)
        size = source.sum(dim=-1, keepdim=True)
        at = (place + size + 1).clamp(max=tokens.shape[-1] - 1)
        count = (after & (tokens != END_ID)).sum(dim=-1) - 1
        fits = (count == size[..., 0]) & (count > 0)
        return cls(tokens, source, tokens.gather(-1, at), fits)

    def batch(self, size: int) -> Batch:
        """The batch that teaches the tags. Args: size: the number of tokens."""
        mask = self.source & self.fits[..., None]
        target = torch.nn.functional.one_hot(self.tags, size).bool() & mask[..., None]
        return Batch(self.sources_alone, target.float(), target.float())

    @property
    def sources_alone(self) -> Int[Tensor, "*batch pos"]:
        """The tokens without borders and targets: END stands there, as where a word has ended."""
        first = torch.arange(self.tokens.shape[-1], device=self.tokens.device) == 0
        return self.tokens.masked_fill(~(self.source | first), END_ID)
