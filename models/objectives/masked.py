"""Hidden symbols of a word, given all others: the pretraining of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.languages import BOS_ID, END_ID, FIRST_SYMBOL_ID, Language, Vocabulary, Word, Words
from models.objectives.base import Batch, Outcome
from models.objectives.language_model import NextToken
from models.objectives.readout import Readout

HIDDEN = 0.15
"""The share of the symbols that are asked for; at least one in each word."""
AS_MASK, AS_ANOTHER = 0.8, 0.1
"""The shares of the symbols that are asked for and shown as the mask, or as some symbol at random;
the others are shown as they are. Without the last two the model would learn nothing about
symbols that it sees."""
MASK_ID = BOS_ID
"""The token that is shown where a symbol is hidden. BOS never stands inside a word, so it can be
the mask there. A model that goes on to learn something else then needs no other vocabulary."""
FIXED = 0x3A5C  # draws which symbols are hidden where nobody says which


class HiddenSymbols(NextToken):
    """The symbols that stand where 15% of them are hidden (Devlin et al. 2019).

    The answers at a hidden symbol are one distribution over all tokens, and cost the cross-entropy.
    BOS, the class token, is never asked for. The words are those of the language.
    """

    name = "masked"
    caption = "The hidden symbols of a word, given all others: a softmax, as in BERT."
    taught = "the hidden symbols of words of the language"
    asks = "may stand here"
    outcome = "logits of what may stand at each position"
    blind = (
        "asks for a hidden symbol, given all others, and a causal mask does not show those that "
        "come after it"
    )
    hides: ClassVar[bool] = True

    def prepared(self, words: Words, vocabulary: Vocabulary, rng: np.random.Generator) -> Words:
        """The words, with what is asked for and how it is shown written into their numbers."""
        codes = words.ids.copy()
        picks = (rng.random(codes.shape) < HIDDEN) & words.mask
        first = np.where(words.mask, rng.random(codes.shape), 2.0).argmin(axis=1, keepdims=True)
        none = ~picks.any(axis=1, keepdims=True) & (words.lengths > 0)[:, None]
        np.put_along_axis(picks, first, np.take_along_axis(picks, first, 1) | none, axis=1)
        draw = rng.random(codes.shape)
        another = rng.integers(FIRST_SYMBOL_ID, len(vocabulary), codes.shape)
        shown = np.where(draw < AS_MASK, MASK_ID, codes)
        shown = np.where((draw >= AS_MASK) & (draw < AS_MASK + AS_ANOTHER), another, shown)
        return Words(_coded(codes, shown, picks, len(vocabulary)), words.lengths)

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """One answer at each hidden symbol.

        Args:
            words: words of the language, ``prepared``; in others some symbols are hidden here,
                always the same.
        """
        size = len(language.vocabulary)
        if not (words.ids >= size).any():
            words = self.prepared(words, language.vocabulary, np.random.default_rng(FIXED))
        picks = words.ids >= size
        true = np.where(picks, (words.ids - size) // size, words.ids)
        shown = np.where(picks, (words.ids - size) % size, words.ids)
        target = np.zeros((*true.shape, size), dtype=bool)
        np.put_along_axis(target, true[..., None], picks[..., None], axis=2)
        target = np.pad(target, ((0, 0), (1, 0), (0, 0)))
        return Batch.of(Words(shown, words.lengths), target, target)

    def _truth(self, language: Language, words: Words, readout: Readout) -> Batch:
        """The words with one symbol of each hidden, always the same one, and all symbols that make
        a word of the language there."""
        size, rows = len(language.vocabulary), np.arange(len(words))
        drawn = np.random.default_rng(FIXED).random(words.ids.shape)
        ids = words.ids.copy()
        weight = np.zeros((*words.tokens.shape, size), dtype=bool)
        target = np.zeros_like(weight)
        if ids.shape[1]:
            at = np.where(words.mask, drawn, 2.0).argmin(axis=1)
            some = words.lengths > 0
            ids[rows[some], at[some]] = MASK_ID
            weight[rows[some], at[some] + 1, FIRST_SYMBOL_ID:] = True
            target[rows[some], at[some] + 1] = _fitting(language, words, at)[some]
        return Batch.of(Words(ids, words.lengths), target, weight)

    def margins(self, made: Outcome) -> Float[Tensor, "*batch"]:
        """The least logit of the symbols at their own positions; -inf for the empty word."""
        symbols = made.tokens[..., 1:]
        scores = made.logits[..., 1:, :].take_along_dim(symbols[..., None], dim=-1)[..., 0]
        inside = symbols != END_ID
        last = torch.where(inside.any(dim=-1), torch.inf, -torch.inf)[..., None]
        scores = scores.masked_fill(~inside, torch.inf)
        return torch.cat([scores, last.to(scores.dtype)], dim=-1).amin(dim=-1)

    def words_to_read(self, word: Sequence[str], vocabulary: Vocabulary, sees_ahead: bool) -> Words:
        """The word, and then the word without each of its symbols in turn."""
        return _hidden_one_by_one(vocabulary.words([word]))

    def after_prefixes(
        self, logits: Float[Tensor, "batch pos d_vocab"], at: Int[Tensor, " batch"]
    ) -> Float[Tensor, "prefix d_vocab"]:
        """The logits at BOS, and at each symbol when it is hidden."""
        return logits.diagonal(dim1=0, dim2=1).T

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return vocabulary.symbols

    def true_tokens(self, language: Language, word: Word, at: int) -> frozenset[str]:
        """The symbols that may stand in the place of a symbol, given all others."""
        fits = _fitting(language, language.vocabulary.words([word]), np.array([at - 1]))[0]
        return frozenset(language.vocabulary.decode(np.flatnonzero(fits)))

    def taught_after(self, word: Sequence[str]) -> range:
        return range(1, len(word) + 1)

    def needed(self, word: Sequence[str]) -> list[tuple[int, str]]:
        """Every symbol of the word, where it stands."""
        return list(enumerate(word, 1))

    def log_probabilities(
        self, logits: Float[Tensor, "*pos d_vocab"], vocabulary: Vocabulary
    ) -> Float[Tensor, "*pos d_vocab"]:
        """The model's log-probabilities of symbols; BOS and END are never hidden."""
        never = torch.arange(len(vocabulary), device=logits.device) < FIRST_SYMBOL_ID
        return logits.masked_fill(never, -torch.inf).log_softmax(dim=-1)


def _hidden_one_by_one(words: Words) -> Words:
    """Each word, and then the word with each of its places hidden in turn; places after its end
    stay as they are."""
    places = words.ids.shape[1]
    ids = np.repeat(words.ids[:, None], places + 1, axis=1)
    hidden = np.eye(places + 1, places, k=-1, dtype=bool)[None] & words.mask[:, None]
    shown = np.where(hidden, MASK_ID, ids).reshape(len(words) * (places + 1), places)
    return Words(shown, np.repeat(words.lengths, places + 1))


def _coded(
    true: Int[np.ndarray, "batch time"],
    shown: Int[np.ndarray, "batch time"],
    picks: Bool[np.ndarray, "batch time"],
    size: int,
) -> Int[np.ndarray, "batch time"]:
    """A number that no token has, for each symbol that is asked for."""
    return np.where(picks, size + true * size + shown, true)


def _fitting(
    language: Language, words: Words, at: Int[np.ndarray, " batch"]
) -> Bool[np.ndarray, "batch d_vocab"]:
    """The tokens that make a word of the language at one place of each word."""
    size, count = len(language.vocabulary), len(language.vocabulary) - FIRST_SYMBOL_ID
    fits = np.zeros((len(words), size), dtype=bool)
    ids = np.repeat(words.ids, count, axis=0)
    ids[np.arange(len(ids)), np.repeat(at, count)] = np.tile(
        np.arange(FIRST_SYMBOL_ID, size), len(words)
    )
    labels = language.labels(Words(ids, np.repeat(words.lengths, count)))
    fits[:, FIRST_SYMBOL_ID:] = labels.reshape(len(words), count)
    return fits
