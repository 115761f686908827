"""Drift: the distance that activations move between two states of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class Drift:
    """The change of the distribution of a layer's activations (its covariate shift).

    Both numbers are relative to the spread before: the root of the mean squared distance from the
    mean, sqrt(tr C) of the covariance C. Both are NaN where there was no spread.

    Attributes:
        mean: the distance that the mean moved.
        spread: the change of the spread, whether it grew or shrank.
    """

    mean: float
    spread: float


def drift(before: Float[np.ndarray, "sample d"], after: Float[np.ndarray, "sample d"]) -> Drift:
    """The drift between the activations of the same symbols, read at two states of a model."""
    spreads = [float(np.sqrt(x.var(axis=0).sum())) for x in (before, after)]
    if spreads[0] < 1e-12:
        return Drift(float("nan"), float("nan"))
    moved = float(np.linalg.norm(after.mean(axis=0) - before.mean(axis=0)))
    return Drift(moved / spreads[0], abs(spreads[1] - spreads[0]) / spreads[0])
