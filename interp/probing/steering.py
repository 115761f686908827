"""Steering: a variable is moved along its direction in the activations, to see what follows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor


def direction(x: Float[Tensor, "n d"], z: Shaped[Tensor, " n"]) -> Float[Tensor, " d"]:
    """The average change of x if z grows by one: the slope of the regression of x on z.

    A probe's weights are the other regression, of z on x; to move along them can lead away from
    where activations lie. This direction stays there.

    Args:
        x: activations.
        z: the variable.

    Returns:
        The direction in float64, in units of x per unit of z; it points to larger z.

    Raises:
        ValueError: the variable does not vary.
    """
    if not (z != z[:1]).any():
        raise ValueError("the variable is the same everywhere: take words in which it varies")
    x, z = x.double() - x.double().mean(0), z.double() - z.double().mean()
    return x.T @ z / z.square().sum()


def random_direction(like: Float[Tensor, " d"], seed: int) -> Float[Tensor, " d"]:
    """The control: a direction drawn evenly from all directions, as long as ``like``."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(like.shape, generator=generator, dtype=like.dtype).to(like)
    return drawn * like.norm() / drawn.norm()


def adding(
    direction: Float[Tensor, " d"], amount: Float[Tensor, "batch pos"]
) -> Callable[..., Tensor]:
    """A TransformerLens hook that adds a direction to the activations of a batch of words.

    Args:
        amount: number of times that the direction is added, at each position of each word.
    """
    added = amount[..., None] * direction

    def hook(x: Float[Tensor, "batch pos d"], hook: object) -> Float[Tensor, "batch pos d"]:
        return x + added.to(x)

    return hook
