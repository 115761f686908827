"""Structural probes: is the tree of a sentence in the distances between its activations?

Hewitt and Manning (2019, "A Structural Probe for Finding Syntax in Word Representations"): a linear
map B is fitted so that the squared length of B(x - y) is the number of edges between two words in
their tree (distance), or the squared length of Bx + b the depth of a word in it (depth). The paper
has no b; with it, activations may be centred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import spearmanr
from torch import Tensor

from interp.adam import Adam

Structure = Literal["distance", "depth"]
STEPS = 200


@dataclass(frozen=True)
class Sentences:
    """Sentences with their trees, padded.

    Attributes:
        x: the activations of the words.
        distance: edges between two words in the tree.
        depth: edges between a word and the root.
        mask: True where a word stands.
    """

    x: Float[Tensor, "batch pos d"]
    distance: Float[Tensor, "batch pos pos"]
    depth: Float[Tensor, "batch pos"]
    mask: Bool[Tensor, "batch pos"]

    def __getitem__(self, rows: np.ndarray) -> Sentences:
        at = torch.as_tensor(rows)
        return Sentences(self.x[at], self.distance[at], self.depth[at], self.mask[at])

    def truth(self, of: Structure) -> Tensor:
        return self.distance if of == "distance" else self.depth

    def cells(self, of: Structure) -> Bool[Tensor, "batch *cells"]:
        """Where there is a truth: pairs of words, or words."""
        return self.mask[:, :, None] & self.mask[:, None] if of == "distance" else self.mask


class _StructuralProbe:
    """A fitted probe.

    Args:
        of: the structure that it reads.
        weights: the map B; it reads activations that are centred and scaled.
        bias: b, where the root is; for distances it has no meaning.
    """

    def __init__(
        self,
        of: Structure,
        weights: Float[Tensor, "d rank"],
        bias: Float[Tensor, " rank"],
        mean: Float[Tensor, " d"],
        scale: Float[Tensor, " d"],
    ) -> None:
        self.of, self.weights, self.bias, self.mean, self.scale = of, weights, bias, mean, scale

    def __call__(self, x: Float[Tensor, "batch pos d"]) -> Float[Tensor, "batch *cells"]:
        """Its readings: the distance of each pair of words, or the depth of each word."""
        z = (x.to(self.mean) - self.mean) / self.scale
        return _read(self.of, z @ self.weights + self.bias)


def fit(sentences: Sentences, of: Structure, rank: int = 32, seed: int = 0) -> _StructuralProbe:
    """Fits a probe by Adam to the absolute error, the mean of a sentence's pairs or words counting
    once, as in the paper.

    Args:
        rank: rank of the map; at most the width of the activations.
        seed: seed of the first weights.
    """
    x, width = sentences.x.double(), sentences.x.shape[-1]  # few sentences: rounding would show
    words = x[sentences.mask]
    mean, scale = words.mean(dim=0), words.std(dim=0).clamp_min(1e-6)
    z = (x - mean) / scale
    truth, cells = sentences.truth(of), sentences.cells(of).to(x.dtype)
    share = cells / cells.flatten(1).sum(dim=1).reshape(-1, *[1] * (cells.ndim - 1)) / len(x)
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn((width, min(rank, width)), generator=generator, dtype=x.dtype)
    weights = (weights / width).requires_grad_()
    bias = torch.zeros_like(weights[0]).requires_grad_()
    optimiser = Adam([weights, bias], lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    with torch.enable_grad():
        for _ in range(STEPS):
            loss = ((_read(of, z @ weights + bias) - truth).abs() * share).sum()
            weights.grad, bias.grad = torch.autograd.grad(loss, [weights, bias])
            optimiser.step()
            schedule.step()
    return _StructuralProbe(of, weights.detach(), bias.detach(), mean, scale)


def _read(of: Structure, z: Float[Tensor, "batch pos rank"]) -> Tensor:
    squares = z.square().sum(dim=-1)
    if of == "depth":
        return squares
    between = squares[:, :, None] + squares[:, None] - 2 * z @ z.transpose(1, 2)
    return between.clamp_min(0)


def spearman(
    read: Float[Tensor, "batch *cells"], sentences: Sentences, of: Structure
) -> Float[np.ndarray, " batch"]:
    """The agreement of the order of the values with the truth: Spearman's correlation.

    For distances it is taken from each word to all others, and averaged over the words of a
    sentence, as in the paper; for depths over the words of a sentence. NaN for a sentence in which
    all true values are alike, or all that was read.
    """
    correlations = []
    for row, (mask, values) in enumerate(zip(sentences.mask, read, strict=True)):
        keep = mask.numpy()
        truth, data = sentences.truth(of)[row].numpy(), values.numpy()
        if of == "depth":
            correlations.append(_rank_correlation(data[keep], truth[keep]))
            continue
        others = [keep & (np.arange(len(keep)) != i) for i in range(len(keep))]
        rows = [
            _rank_correlation(data[i, others[i]], truth[i, others[i]]) for i in np.flatnonzero(keep)
        ]
        scores = [value for value in rows if np.isfinite(value)]
        correlations.append(float(np.mean(scores)) if scores else float("nan"))
    return np.array(correlations)


def _rank_correlation(read: np.ndarray, truth: np.ndarray) -> float:
    if len(truth) < 3 or np.ptp(truth) == 0 or np.ptp(read) == 0:
        return float("nan")
    return float(spearmanr(read, truth).statistic)


def swapped(sentences: Sentences, lengths: Sequence[int], seed: int = 0) -> Sentences:
    """The control: each sentence gets the tree of another sentence of its length, by chance its
    own where there is no other."""
    rng, sizes = np.random.default_rng(seed), np.asarray(lengths)
    source = np.arange(len(sizes))
    for length in np.unique(sizes):
        rows = np.flatnonzero(sizes == length)
        source[rows] = rng.permutation(rows)
    at = torch.as_tensor(source)
    return Sentences(sentences.x, sentences.distance[at], sentences.depth[at], sentences.mask)
