"""LEACE: the least change after which no linear probe finds a variable (Belrose et al. 2023).

    x' = x - S^(1/2) P S^(-1/2) (x - mean),   S the covariance of x,

where P projects orthogonally onto the columns of S^(-1/2) Cov(x, z). On the data of the fit x' has
no covariance with z, so that no linear probe does better there than a constant. No other affine map
that achieves this changes x less in the mean square.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from interp.model import require_finite

RELATIVE = 1e-8  # singular values of the cross-covariance below this share of the largest: rounding


@dataclass(frozen=True, repr=False)  # a hook point writes down its hooks: numbers would take long
class Eraser:
    """The affine map x - left right (x - mean), in float64.

    Attributes:
        mean: the mean of x, which the map leaves as it is.
        left: the directions that are taken away, one per column.
        right: right (x - mean) says how much of each direction x holds.
    """

    mean: Float[Tensor, " d"]
    left: Float[Tensor, "d rank"]
    right: Float[Tensor, "rank d"]

    @classmethod
    def fit(cls, x: Float[Tensor, "n d"], z: Shaped[Tensor, "n k"]) -> Eraser:
        """LEACE: the eraser of z from x.

        Args:
            x: activations.
            z: the variable: numbers, or categories in one-hot form.
        """
        mean, root, inverse = _whitening(x)
        z = z.double().to(mean.device)
        cross = (x.double() - mean).T @ (z - z.mean(0)) / len(x)  # [d, k]
        directions, strength, _ = torch.linalg.svd(inverse @ cross, full_matrices=False)
        directions = directions[:, strength > RELATIVE * strength[:1]]
        return cls(mean, root @ directions, directions.T @ inverse)

    @classmethod
    def random(cls, x: Float[Tensor, "n d"], rank: int, seed: int) -> Eraser:
        """The control: erases ``rank`` random directions of x.

        They are drawn evenly after x has been whitened, that is, given unit covariance.
        """
        mean, root, inverse = _whitening(x)
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randn(x.shape[1], rank, generator=generator, dtype=torch.float64)
        directions, _, _ = torch.linalg.svd(inverse @ root @ drawn.to(root), full_matrices=False)
        return cls(mean, root @ directions, directions.T @ inverse)

    @property
    def rank(self) -> int:
        """The number of directions that are erased."""
        return self.left.shape[1]

    def __call__(self, x: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
        """x without the variable, in the dtype of x."""
        mean, left, right = (part.to(x.device) for part in (self.mean, self.left, self.right))
        held = (x.double() - mean) @ right.T
        return (x.double() - held @ left.T).type_as(x)

    def hook(self, x: Float[Tensor, "*batch d"], hook: object) -> Float[Tensor, "*batch d"]:
        """The eraser as a TransformerLens hook."""
        return self(x)

    def changed(self, x: Float[Tensor, "n d"]) -> float:
        """The change of x by erasing: the mean square of the change over the variance of x."""
        moved = (self(x) - x).double().square().sum()
        return float(moved / (x - x.mean(0)).double().square().sum())


def _whitening(
    x: Float[Tensor, "n d"],
) -> tuple[Float[Tensor, " d"], Float[Tensor, "d d"], Float[Tensor, "d d"]]:
    """The mean, S^(1/2) and its pseudo-inverse; variances as small as rounding count as 0."""
    require_finite(x, "the activations to erase from")
    wide = x.double()
    mean = wide.mean(0)
    variance, axes = torch.linalg.eigh((wide - mean).T @ (wide - mean) / len(x))
    rounding = max(torch.finfo(x.dtype).eps ** 2, torch.finfo(torch.float64).eps)
    real = variance > len(mean) * rounding * variance.max()
    deviation = torch.where(real, variance, 0).sqrt()
    inverse = torch.where(real, 1 / deviation, 0)
    return mean, axes * deviation @ axes.T, axes * inverse @ axes.T
