"""One symbol of a word is hidden: how likely is which, given all others? Truth and model."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float

from models.base import LanguageModel
from models.languages import END_ID, FormalLanguage, Words
from models.objectives.base import Objective
from models.objectives.masked import MASK_ID

PLACES = 3
"""The most places of a word that are hidden, one at a time."""
READ_AT_ONCE = 256


def places_of(words: Words, rng: np.random.Generator) -> Bool[np.ndarray, "word pos"]:
    """Up to ``PLACES`` places of each word at random; BOS is position 0, and is never one."""
    order = np.where(words.mask, rng.random(words.ids.shape), 2.0).argsort(axis=1).argsort(axis=1)
    return np.pad((order < PLACES) & words.mask, ((0, 0), (1, 0)))


def truth_of(
    language: FormalLanguage,
    words: Words,
    places: Bool[np.ndarray, "word pos"],
    shares: Float[np.ndarray, " longest_plus_1"],
) -> tuple[Float[np.ndarray, "word pos d_vocab"], Bool[np.ndarray, "word pos d_vocab"]] | None:
    """The probability of each token at a place, given all others, in words that are drawn; and
    which tokens make a word of the language there. None where it is not known how the language
    draws.

    By Bayes' rule it is the share of a word among all words that differ from it there alone.

    Args:
        shares: the probability of each length; a hidden symbol does not change the length.
    """
    row, at = np.nonzero(places)
    may = language.allowed(words)[row, at - 1]  # what no beginning allows makes no word
    case, token = np.nonzero(may & (np.arange(may.shape[1]) > END_ID))
    ids = words.ids[row[case]].copy()
    ids[np.arange(len(case)), at[case] - 1] = token
    variants = Words(ids, words.lengths[row[case]])
    inside = language.labels(variants)
    after = language.next_probabilities(variants, shares)
    if after is None:
        return None
    tokens = np.pad(ids, ((0, 0), (0, 1)), constant_values=END_ID)
    p = np.take_along_axis(after, tokens[..., None], axis=2)[..., 0]
    until = np.arange(tokens.shape[1]) <= variants.lengths[:, None]
    weight = np.where(until, p, 1.0).prod(axis=1)  # 0 where no word of the language is
    shape = (*places.shape, len(language.vocabulary))
    truth, allowed = np.zeros(shape), np.zeros(shape, dtype=bool)
    truth[row[case], at[case], token] = weight
    allowed[row[case], at[case], token] = inside
    total = truth.sum(axis=2, keepdims=True)
    return np.divide(truth, total, out=np.zeros(shape), where=total > 0), allowed


@torch.no_grad()
def said_of(
    model: LanguageModel,
    objective: Objective,
    words: Words,
    places: Bool[np.ndarray, "word pos"],
) -> Float[np.ndarray, "word pos d_vocab"]:
    """A model's log-probability of each token at each place when it alone is hidden."""
    row, at = np.nonzero(places)
    tokens = torch.as_tensor(words.tokens[row])
    tokens[torch.arange(len(row)), torch.as_tensor(at)] = MASK_ID
    logprobs = np.full((*places.shape, len(model.vocabulary)), -np.inf)
    for first in range(0, len(row), READ_AT_ONCE):
        some = slice(first, first + READ_AT_ONCE)
        logits = model(tokens[some].to(model.device)).double().cpu()
        read = logits[torch.arange(len(logits)), torch.as_tensor(at[some])]
        logprobs[row[some], at[some]] = objective.log_probabilities(read, model.vocabulary).numpy()
    return logprobs
