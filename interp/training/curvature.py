"""The curvature of the loss around a model's weights.

The loss is a function of the weights, which is given with them: any model and any data will do. It
must have second derivatives. Give float64: differences of curvature are small beside the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import torch
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Weights = Mapping[str, Tensor]
Loss = Callable[[Weights], Tensor]
"""The loss of weights, a number."""

TOLERANCE = 1e-4
"""The relative error of the largest eigenvalue at which Lanczos' method stops."""


def random_direction(weights: Weights, generator: torch.Generator) -> dict[str, Tensor]:
    """A filter-normalised random direction (Li et al. 2018, "Visualizing the Loss Landscape").

    Each row of a matrix (the weights of one output) is a random vector as long as that row. So
    networks whose weights are scaled differently, and which compute the same, are moved alike.
    Vectors (biases, the gains of norms) do not move.
    """
    direction = {}
    for name, weight in weights.items():
        d = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
        if weight.dim() < 2:
            direction[name] = torch.zeros_like(d)
            continue
        norms = [tensor.flatten(1).norm(dim=1) for tensor in (weight.detach(), d)]
        scale = norms[0] / norms[1]
        direction[name] = d * scale.view(-1, *[1] * (weight.dim() - 1))
    return direction


def hessian_times(loss: Loss, weights: Weights, direction: Weights) -> dict[str, Tensor]:
    """H d: the matrix of second derivatives times a direction (Pearlmutter 1994)."""
    free = {name: weight.detach().requires_grad_() for name, weight in weights.items()}
    leaves = list(free.values())
    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no second derivative
        first = torch.autograd.grad(
            loss(free), leaves, create_graph=True, allow_unused=True, materialize_grads=True
        )
        slope = sum(((g * direction[n]).sum() for n, g in zip(free, first, strict=True)))
        assert isinstance(slope, Tensor)
        second = torch.autograd.grad(slope, leaves, allow_unused=True, materialize_grads=True)
    return dict(zip(free, second, strict=True))


def second_derivative(loss: Loss, weights: Weights, direction: Weights) -> float:
    """d.H d: how strongly the loss bends along a direction, for steps of the direction's length."""
    product = hessian_times(loss, weights, direction)
    return float(sum((product[name] * direction[name]).sum() for name in product))


def sharpest(loss: Loss, weights: Weights, seed: int = 0) -> float:
    """The largest eigenvalue of the matrix of second derivatives, by Lanczos' method (1950).

    Gradient descent with a learning rate above 2 / sharpest leaves a minimum again.

    Args:
        seed: seed of the vector to start from.

    Returns:
        The eigenvalue; NaN if the method does not find it, as where the loss is no number.
    """
    sizes = [weight.numel() for weight in weights.values()]
    total = sum(sizes)

    def times(vector: np.ndarray) -> np.ndarray:
        parts = torch.as_tensor(vector.reshape(-1)).split(sizes)
        shaped = {n: p.view_as(w) for (n, w), p in zip(weights.items(), parts, strict=True)}
        product = hessian_times(loss, weights, shaped)
        return torch.cat([part.reshape(-1) for part in product.values()]).numpy()

    if total == 1:  # which Lanczos' method does not take
        return float(times(np.ones(1))[0])
    operator = LinearOperator((total, total), matvec=times, dtype=np.float64)
    start = np.random.default_rng(seed).normal(size=total)
    try:
        values = eigsh(
            operator, k=1, which="LA", v0=start, tol=TOLERANCE, return_eigenvectors=False
        )
    except ArpackError:
        return float("nan")
    return float(values[0])


@torch.no_grad()
def plane(
    loss: Loss, weights: Weights, first: Weights, second: Weights, reach: float, points: int
) -> pd.DataFrame:
    """The loss on a plane through the weights.

    Args:
        first, second: the directions that span it.
        reach: the distance to go each way, as a multiple of the directions.
        points: number of points along each side of the square.

    Columns: a, b (multiples of ``first`` and ``second``), loss.
    """
    ends = np.linspace(-reach, reach, points)
    rows = []
    for a in ends:
        for b in ends:
            moved = {n: w + a * first[n] + b * second[n] for n, w in weights.items()}
            rows.append((float(a), float(b), float(loss(moved))))
    return pd.DataFrame(rows, columns=["a", "b", "loss"])
