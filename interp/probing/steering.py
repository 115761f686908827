"""Steering: to move a variable along its direction in the activations, and see what follows."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Shaped
from torch import Tensor


def direction(x: Float[Tensor, "n d"], z: Shaped[Tensor, " n"]) -> Float[Tensor, " d"]:
    """How x changes on average where z grows by one: the slope of the regression of x on z.

    Unlike a probe's weights, which are a regression of z on x, it stays where activations lie.
    """
    x, z = x.double() - x.double().mean(0), z.double() - z.double().mean()
    return x.T @ z / z.square().sum()


def random_direction(like: Float[Tensor, " d"], seed: int) -> Float[Tensor, " d"]:
    """The control: a direction drawn evenly, as long as the one given."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(like.shape, generator=generator, dtype=like.dtype)
    return drawn * like.norm() / drawn.norm()


def adding(
    direction: Float[Tensor, " d"], amount: Float[Tensor, "batch pos"]
) -> Callable[..., Tensor]:
    """A TransformerLens hook that adds so much of a direction at every position of every word."""
    added = amount[..., None] * direction

    def hook(x: Float[Tensor, "batch pos d"], hook: object) -> Float[Tensor, "batch pos d"]:
        return x + added.to(x)

    return hook
