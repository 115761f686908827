"""Words of a counting language whose last block goes on too long: where does a model end them?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from models.languages import END_ID
from models.languages.counting import CountingLanguage


@dataclass(frozen=True)
class LastBlocks:
    """Words x^n y^n ... z^m, of which the last block alone may have another size.

    Attributes:
        n: the size of all earlier blocks.
        tokens: BOS first.
        last: True at the symbols of the last block.
        start: the position of its first symbol.
    """

    n: Int[np.ndarray, " batch"]
    tokens: Int[Tensor, "batch pos"]
    last: Bool[Tensor, "batch pos"]
    start: Int[Tensor, " batch"]

    @classmethod
    def of(cls, language: CountingLanguage, n: Int[np.ndarray, " batch"], more: int) -> LastBlocks:
        """Words whose last block is ``more`` symbols longer than the others."""
        *first, last = language.vocabulary.symbols
        spelled = [
            (*(s for s in first for _ in range(size)), *[last] * (size + more)) for size in n
        ]
        words = language.vocabulary.words(spelled)
        start = torch.as_tensor(len(first) * n + 1)
        position = torch.arange(words.tokens.shape[1])
        inside = position <= torch.as_tensor(words.lengths)[:, None]
        return cls(n, torch.as_tensor(words.tokens), inside & (position >= start[:, None]), start)

    @property
    def difference(self) -> Int[Tensor, "batch pos"]:
        """The number of symbols that the last block still lacks after each of its positions."""
        position = torch.arange(self.tokens.shape[1])
        return torch.as_tensor(self.n)[:, None] - (position - self.start[:, None] + 1)

    def ends(self, logits: Float[Tensor, "copies pos d_vocab"]) -> Float[np.ndarray, "k batch"]:
        """The first symbol of the last block after which END's logit is above 0; NaN if there is
        none.

        The logits are those of one or several copies of the words, one copy after the other.
        """
        says = (logits[..., END_ID] > 0).unflatten(0, (-1, len(self.n))) & self.last
        first = says.int().argmax(dim=-1) - self.start + 1
        return torch.where(says.any(dim=-1), first.double(), torch.nan).cpu().numpy()


def states_of_others(
    words: LastBlocks,
    others: LastBlocks,
    states: Float[Tensor, "other pos d"],
    k: Int[Tensor, " copies"],
    at: Bool[Tensor, "batch pos"],
) -> Callable[..., Tensor]:
    """A hook that puts in place the state of the word of size n + k after as many last symbols.

    It may move an end that no linear direction moves. So it shows whether the site carries the
    counter at all.
    """
    copy, position = at.repeat(len(k) // len(words.n), 1).nonzero(as_tuple=True)
    word = copy % len(words.n)
    other = torch.as_tensor(words.n)[word] + k[copy] - 1  # the sizes of the others begin with 1
    there = others.start[other] + position - words.start[word]

    def hook(x: Float[Tensor, "copies pos d"], hook: object) -> Float[Tensor, "copies pos d"]:
        x = x.clone()
        x[copy, position] = states[other, there].to(x)
        return x

    return hook
