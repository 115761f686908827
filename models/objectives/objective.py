"""One objective for recognisers, predictors and labelled corpora: the set of next symbols.

At every position the model says, for each token independently, whether it may come next; END
allowed at the last position is the verdict on the word. ``supervision`` is which of these answers a
teacher gives: "every" position, or at the "last" one the verdict alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from models.languages import BOS_ID, END_ID, Language, Supervision, Words


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


def supervised(
    words: Words, d_vocab: int, supervision: Supervision, encoder: bool = False
) -> Bool[np.ndarray, "b p v"]:
    """Where the teacher speaks, [batch, pos, d_vocab]; never about BOS, which nothing allows.

    The verdict on a word is given at its last symbol, to an encoder at BOS, its class token.
    """
    position = np.arange(words.ids.shape[1] + 1)
    spoken = np.zeros((len(words), len(position), d_vocab), dtype=bool)
    if supervision == "every":
        spoken[..., BOS_ID + 1 :] = (position <= words.lengths[:, None])[..., None]
    else:
        spoken[np.arange(len(words)), 0 if encoder else words.lengths, END_ID] = True
    return spoken


def make_batch(
    language: Language,
    words: Words,
    supervision: Supervision,
    device: torch.device | str = "cpu",
    encoder: bool = False,
) -> Batch:
    """The words with everything that the teacher says about them."""
    weight = supervised(words, len(language.vocabulary), supervision, encoder)
    allowed = language.allowed(words)
    if encoder:
        allowed[:, 0, END_ID] = allowed[np.arange(len(words)), words.lengths, END_ID]
    target = allowed & weight
    return Batch(
        torch.as_tensor(words.tokens, device=device),
        torch.as_tensor(target, device=device, dtype=torch.float32),
        torch.as_tensor(weight, device=device, dtype=torch.float32),
    )


def answer_losses(
    logits: Float[Tensor, "batch pos d_vocab"], batch: Batch
) -> Float[Tensor, "batch pos d_vocab"]:
    """Binary cross-entropy, in nats, of each answer that the teacher gives; 0 of all others."""
    return binary_cross_entropy_with_logits(logits, batch.target, batch.weight, reduction="none")


def loss(logits: Float[Tensor, "batch pos d_vocab"], batch: Batch) -> Float[Tensor, ""]:
    """Mean of ``answer_losses``, in nats per answer that the teacher gives."""
    return answer_losses(logits, batch).sum() / batch.weight.sum()
