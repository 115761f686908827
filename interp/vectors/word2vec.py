"""Skip-gram and CBOW with negative sampling (Mikolov et al. 2013)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from interp.adam import Adam
from interp.vectors.counts import Text, cooccurrences

Method = Literal["skip-gram", "cbow"]
SMOOTHING = 0.75
"""The power of the counts by which negative examples are drawn, as in the paper."""
BATCH = 512
"""Places of a step of CBOW."""


def word2vec(
    text: Text,
    words: int,
    method: Method = "skip-gram",
    dim: int = 16,
    window: int = 2,
    negatives: int = 5,
    steps: int = 600,
    learning_rate: float = 0.05,
    smoothing: float = SMOOTHING,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "word dim"], Float[np.ndarray, "word dim"]]:
    """Vectors that tell the words near a word from words drawn at random.

    Skip-gram asks it of each pair of a word and one near it. CBOW asks it of a word and the mean of
    all that stand near it. Vocabularies of grammars are small, so nothing is drawn for negative
    examples: the loss is its expectation over them, and in skip-gram over the pairs too. Neither
    subsampling nor a window of random width is needed. The learning rate of Adam falls to zero in a
    straight line.

    Args:
        words: number of words.
        window: places to each side.
        negatives: words drawn at random for each true one.
        smoothing: negative words are drawn by their count to this power.

    Returns:
        Vectors of words, and vectors of contexts ("inside" and "outside" vectors). In CBOW those of
        words are the ones whose mean is taken.

    Raises:
        ValueError: no word stands near another one.
    """
    if not any(len(sentence) > 1 for sentence in text):
        raise ValueError("no word stands near another one: give sentences of two words or more")
    chance = torch.Generator().manual_seed(seed)
    inside, outside = (
        torch.randn(words, dim, generator=chance).mul_(0.5 / dim**0.5).requires_grad_()
        for _ in range(2)
    )
    counts = np.bincount(np.concatenate(list(text)), minlength=words).astype(float) ** smoothing
    drawn = torch.as_tensor(counts / counts.sum()).float()
    optimizer = Adam([inside, outside], lr=learning_rate)
    pairs = torch.as_tensor(cooccurrences(text, words, window)).float()
    bags = _Bags(text, window, seed) if method == "cbow" else None
    for step in range(steps):
        if bags is None:
            value = expected_loss(inside @ outside.T, pairs, drawn, negatives)
        else:
            near, wanted = bags.draw()
            there = (near >= 0).float()[..., None]
            mean = (inside[near.clamp_min(0)] * there).sum(dim=1) / there.sum(dim=1)
            hot = torch.nn.functional.one_hot(wanted, words).float()
            value = expected_loss(mean @ outside.T, hot, drawn, negatives)
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - step / steps)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return inside.detach().numpy(), outside.detach().numpy()


def expected_loss(
    scores: Float[Tensor, "given context"],
    true: Float[Tensor, "given context"],
    drawn: Float[Tensor, " context"],
    negatives: int,
) -> Float[Tensor, ""]:
    """-log s(u.v) - k E log s(-u.v') in nats, the mean over all true pairs; s is the sigmoid.

    Args:
        scores: u.v of each given vector with each context's.
        true: number of times that each pair is true.
        drawn: probability of each context as a negative example v'.
        negatives: k, the number drawn for each true pair.
    """
    yes = -(true * logsigmoid(scores)).sum()
    no = -(true.sum(dim=1) * (logsigmoid(-scores) @ drawn)).sum() * negatives
    return (yes + no) / true.sum()


class _Bags:
    """The words near each place of a text, -1 where there is none; and the word at the place."""

    def __init__(self, text: Text, window: int, seed: int) -> None:
        bags, wanted = list[np.ndarray](), list[np.ndarray]()
        for sentence in text:
            if len(sentence) > 1:
                wide = np.pad(sentence, window, constant_values=-1)
                around = np.lib.stride_tricks.sliding_window_view(wide, 2 * window + 1)
                bags.append(np.delete(around, window, axis=1))
                wanted.append(sentence)
        self.bags, self.wanted = np.concatenate(bags), np.concatenate(wanted)
        self._rng = np.random.default_rng(seed)

    def draw(self) -> tuple[Int[Tensor, "place near"], Int[Tensor, " place"]]:
        """Places of one step."""
        rows = self._rng.integers(len(self.wanted), size=BATCH)
        return torch.as_tensor(self.bags[rows]), torch.as_tensor(self.wanted[rows])
