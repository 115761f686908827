"""A dictionary: activations as sums of few directions, each with a code that is not negative.

    x ~ offset + sum over latents of code times direction

A latent is one direction with its code. A sparse autoencoder learns both (``training``). Its peers
(PCA, k-means, neurons, ...; ``peers``) have the same form, and all are scored alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class Dictionary:
    """Latents of an activation.

    Attributes:
        encode: the map from activations [n, d_in] to codes [n, latent]. A code of 0 says that the
            latent is silent.
        directions: the vector that a code of 1 adds to the output, a row for each latent.
        offset: the output where all latents are silent.
    """

    encode: Callable[[Float[Tensor, "n d_in"]], Float[Tensor, "n latent"]]
    directions: Float[Tensor, "latent d_out"]
    offset: Float[Tensor, " d_out"]

    def decode(self, codes: Float[Tensor, "n latent"]) -> Float[Tensor, "n d_out"]:
        """The output that codes stand for."""
        return codes @ self.directions + self.offset


def top_k(pre: Float[Tensor, "*batch latent"], active: int) -> Float[Tensor, "*batch latent"]:
    """Each row keeps its ``active`` largest values, as far as they are above 0 (Gao et al. 2024).

    All others become 0.
    """
    largest = pre.topk(min(active, pre.shape[-1]), dim=-1)
    return torch.zeros_like(pre).scatter(-1, largest.indices, largest.values.relu())


def batch_top_k(
    pre: Float[Tensor, "*many row latent"], active: int
) -> Float[Tensor, "*many row latent"]:
    """All rows together keep ``active`` values a row on average, the largest ones, as far as they
    are above 0 (Bussmann, Leask and Nanda 2024).

    One row may then keep more of them than another.
    """
    rows, latents = pre.shape[-2:]
    return top_k(pre.flatten(-2), active * rows).unflatten(-1, (rows, latents))


def above(pre: Float[Tensor, "*batch latent"], threshold: float) -> Float[Tensor, "*batch latent"]:
    """Values above a threshold, which is not negative; all others become 0."""
    return torch.where(pre > threshold, pre, torch.zeros_like(pre))


def live(codes: Float[Tensor, "n latent"]) -> Bool[Tensor, " latent"]:
    """True for the latents that are ever on."""
    return (codes > 0).any(dim=0)
