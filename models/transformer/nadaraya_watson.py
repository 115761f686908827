"""Kernel attention (Nadaraya-Watson): attention in which nothing is learned."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from models.errors import UserError

Kernel = Literal["gaussian", "boxcar", "epanechnikov"]


def kernel_attention(
    queries: Float[Tensor, "query *d"],
    keys: Float[Tensor, "key *d"],
    values: Float[Tensor, "key *v"],
    kernel: Kernel,
    width: float = 1.0,
) -> tuple[Float[Tensor, "query *v"], Float[Tensor, "query key"]]:
    """The mean of the values, each weighted by the kernel of its key's distance d to the query.

        gaussian exp(-d^2 / 2),   boxcar 1[d <= 1],   epanechnikov max(0, 1 - d)

    Args:
        queries: numbers or vectors; the keys are the same.
        width: the unit in which distances are measured.

    Returns:
        The means, and the weights. A row of weights sums to 1. If no key is inside the kernel, the
        row is 0 and so is the mean. (A Gaussian has no border, so this never happens to it.)

    Raises:
        UserError: the kernel is unknown, or the width is not positive.
    """
    if kernel not in get_args(Kernel):
        raise UserError(f"unknown kernel {kernel!r}: choose one of {', '.join(get_args(Kernel))}")
    if not width > 0:
        raise UserError(f"width is {width}: it must be positive")
    difference = queries[:, None] - keys[None]
    distance = difference[..., None].flatten(2).norm(dim=-1) / width
    if kernel == "gaussian":
        weights = (-distance.square() / 2).softmax(dim=-1)  # far keys do not all underflow to 0
    else:
        inside = (distance <= 1).to(distance) if kernel == "boxcar" else (1 - distance).clamp(min=0)
        total = inside.sum(dim=-1, keepdim=True)
        weights = inside / total.masked_fill(total == 0, 1.0)
    return torch.tensordot(weights, values, dims=1), weights
