"""Skip-gram and CBOW with negative sampling (Mikolov et al. 2013)."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from interp.vectors.counts import Text, pairs

Method = Literal["skip-gram", "cbow"]
SMOOTHING = 0.75
"""The power of the counts by which negative examples are drawn, as in the paper."""


def loss(
    inside: Float[Tensor, "batch dim"],
    outside: Float[Tensor, "batch dim"],
    negative: Float[Tensor, "batch negatives dim"],
) -> Float[Tensor, ""]:
    """-log s(u.v) - sum_k log s(-u_k.v) in nats, the mean over the batch; s is the sigmoid."""
    yes = logsigmoid((inside * outside).sum(dim=-1))
    no = logsigmoid(-(negative @ inside[..., None])[..., 0]).sum(dim=-1)
    return -(yes + no).mean()


def word2vec(
    text: Text,
    words: int,
    method: Method = "skip-gram",
    dim: int = 16,
    window: int = 2,
    negatives: int = 5,
    steps: int = 3000,
    batch: int = 1024,
    learning_rate: float = 0.02,
    smoothing: float = SMOOTHING,
    seed: int = 0,
) -> tuple[Float[np.ndarray, "word dim"], Float[np.ndarray, "word dim"]]:
    """Vectors that tell the words near a word from words drawn at random.

    Skip-gram asks it of each pair of a word and one near it. CBOW asks it of a word and the mean of
    all that stand near it. Small texts need neither subsampling nor a window of random width, so
    there is none. The learning rate of Adam falls to zero in a straight line.

    Args:
        words: how many words there are.
        window: places to each side.
        negatives: words drawn at random for each true one.
        smoothing: negative words are drawn by their count to this power.

    Returns:
        Vectors of words, and vectors of contexts ("inside" and "outside" vectors).

    Raises:
        ValueError: no word stands near another one.
    """
    chance = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    inside, outside = (
        torch.randn(words, dim, generator=chance).mul_(0.5 / dim**0.5).requires_grad_()
        for _ in range(2)
    )
    centres, near = pairs(text, window)
    if not len(centres):
        raise ValueError("no word stands near another one: give sentences of two words or more")
    counts = np.bincount(np.concatenate(list(text)), minlength=words).astype(float) ** smoothing
    drawn = torch.as_tensor(counts / counts.sum())
    bags = _bags(text, window) if method == "cbow" else None
    optimizer = torch.optim.Adam([inside, outside], lr=learning_rate)
    for step in range(steps):
        if bags is None:
            rows = rng.integers(len(centres), size=batch)
            given, wanted = inside[torch.as_tensor(centres[rows])], torch.as_tensor(near[rows])
        else:
            some, wanted_ids = bags
            rows = rng.integers(len(wanted_ids), size=batch)
            bag = torch.as_tensor(some[rows])
            there = (bag >= 0).float()[..., None]
            given = (inside[bag.clamp_min(0)] * there).sum(dim=1) / there.sum(dim=1)
            wanted = torch.as_tensor(wanted_ids[rows])
        wrong = drawn.multinomial(batch * negatives, True, generator=chance).view(batch, negatives)
        optimizer.param_groups[0]["lr"] = learning_rate * (1 - step / steps)
        optimizer.zero_grad()
        loss(given, outside[wanted], outside[wrong]).backward()
        optimizer.step()
    return inside.detach().numpy(), outside.detach().numpy()


def _bags(
    text: Text, window: int
) -> tuple[Int[np.ndarray, "place near"], Int[np.ndarray, " place"]]:
    """What stands near each place, -1 where nothing does; and the word at the place."""
    bags, wanted = list[np.ndarray](), list[np.ndarray]()
    for sentence in text:
        if len(sentence) < 2:
            continue
        wide = np.pad(sentence, window, constant_values=-1)
        around = np.lib.stride_tricks.sliding_window_view(wide, 2 * window + 1)
        bags.append(np.delete(around, window, axis=1))
        wanted.append(sentence)
    return np.concatenate(bags), np.concatenate(wanted)
