"""Influence: how much a training line raises a value of the network, according to each method.

All say it with one sign: positive means that the value, such as the network's log odds of the right
verdict, is higher because the line was read. They estimate it from gradients, and train nothing.
The units differ, so only the order of lines, and of sums over lines, is compared.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from interp.influence.gradients import Gradients
from interp.model import require_finite

DAMPING = 0.1
"""The number that is added to each eigenvalue, in units of their mean (Grosse et al. 2023)."""

Influence = Float[Tensor, "target line"]


def dot(targets: Gradients, lines: Gradients) -> Influence:
    """The gain of each target by a step of gradient descent on each line, to first order.

    Args:
        targets: gradients of the values.
        lines: gradients of the losses.
    """
    return -targets.flat @ lines.flat.T


def cosine(targets: Gradients, lines: Gradients) -> Influence:
    """``dot`` of gradients that are scaled to length 1; 0 for one that is 0."""
    return -nn.functional.normalize(targets.flat, dim=1) @ nn.functional.normalize(lines.flat).T


def tracin(checkpoints: Iterable[tuple[float, Gradients, Gradients]]) -> Influence:
    """``dot`` summed over the training (TracInCP; Pruthi et al. 2020).

    Args:
        checkpoints: at least one: its learning rate, summed over the steps for which it stands; the
            gradients of the values; those of the losses.

    Raises:
        ValueError: there is no checkpoint.
    """
    total = None
    for rate, targets, lines in checkpoints:
        part = rate * dot(targets, lines)
        total = part if total is None else total + part
    if total is None:
        raise ValueError("TracIn adds up over checkpoints: give at least one")
    return total


VANISHED = "all gradients of the sampled losses are zero: there is no curvature to correct by"


def fisher(
    targets: Gradients, lines: Gradients, sampled: Gradients, damping: float = DAMPING
) -> Influence:
    """The influence function with the Fisher matrix of the lines (Koh and Liang 2017).

    The value's gradient times the inverse of F + damping, times the loss's gradient. F is the mean
    of g g^T, and stands for the Hessian of the mean loss. It is inverted exactly, by way of the
    products of gradients.

    Args:
        sampled: gradients g of losses whose labels are drawn from the network's own answers. With
            the lines' own labels F is the empirical Fisher matrix.
        damping: the damping, in units of the mean eigenvalue of F.

    Raises:
        ValueError: the sampled gradients are all zero, or one is NaN or infinite.
    """
    g = sampled.flat.double()
    require_finite(g, "gradients of the sampled losses")
    if not g.any():
        raise ValueError(VANISHED)
    count, weights = g.shape
    products = g @ g.T
    added = damping * products.diagonal().sum() / count / weights
    one, other = targets.flat.double(), lines.flat.double()
    inner = products + count * added * torch.eye(count, dtype=g.dtype, device=g.device)
    corrected = torch.linalg.solve(inner, g @ other.T)
    return -(one @ other.T - (one @ g.T) @ corrected).to(targets.flat.dtype) / float(added)
