"""Vectors of positions: are they bounded and unique, is a step one map, and is the number read?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from scipy.spatial.distance import cdist
from sklearn.metrics import mutual_info_score

FINEST = 1e-6
"""Differences below this share of the largest are taken for none: float32 hardly tells them."""


@dataclass(frozen=True)
class Properties:
    """Properties of the vectors of positions 0 to 2 n - 1. The first n are the window.

    Attributes:
        largest: the largest norm within the window.
        growth: the largest norm beyond the window, divided by ``largest``; 1 where all are zero.
            Bounded vectors do not grow.
        unique: so many positions from 0 on have different vectors; 2 n if all have.
        step: the error of the best affine map from each position to the one ``shift`` later, as a
            share of the standard deviation: 0 is exact, 1 no better than the mean vector.
        bits, bits_beyond: number of the log2(n) low bits of the position that a linear probe reads:
            the mutual information of each bit with what is read, in bits, summed. The probe is
            fitted within the window, by least squares.
    """

    largest: float
    growth: float
    unique: int
    step: float
    bits: float
    bits_beyond: float


def properties(table: Float[np.ndarray, "position d"], window: int, shift: int = 1) -> Properties:
    """The properties of vectors that were drawn, learned or computed.

    Args:
        table: vectors of the positions 0, 1, ...: twice the window and the shift, or more.
        window: n, a power of 2 above d, or else every step is an affine map.
        shift: the length of the step.
    """
    within, beyond = np.arange(window), np.arange(window, 2 * window)
    norms = np.linalg.norm(table, axis=1)
    largest = float(norms[within].max())
    bit = (np.arange(2 * window)[:, None] >> np.arange(window.bit_length() - 1)) % 2 == 1
    reader = _affine(table[within], 2.0 * bit[within] - 1)
    return Properties(
        largest,
        float(norms[beyond].max()) / largest if largest else 1.0,
        _unique(table[: 2 * window], largest),
        _missed(table[: 2 * window], table[shift : 2 * window + shift]),
        *(_shared(bit[at], _extended(table[at]) @ reader > FINEST) for at in (within, beyond)),
    )


def _affine(
    x: Float[np.ndarray, "row d"], y: Float[np.ndarray, "row e"]
) -> Float[np.ndarray, "d_plus_1 e"]:
    """The affine map from x to y by least squares; its last row is the constant."""
    return np.linalg.lstsq(_extended(x), y, rcond=FINEST)[0]


def _extended(x: Float[np.ndarray, "row d"]) -> Float[np.ndarray, "row d_plus_1"]:
    return np.column_stack([x, np.ones(len(x))])


def _missed(x: Float[np.ndarray, "row d"], y: Float[np.ndarray, "row d"]) -> float:
    """The root mean square of the best map's errors, divided by that of y around its mean."""
    error, spread = y - _extended(x) @ _affine(x, y), y - y.mean(axis=0)
    return float(np.linalg.norm(error) / np.linalg.norm(spread)) if spread.any() else 0.0


def _unique(table: Float[np.ndarray, "position d"], largest: float) -> int:
    """The number of positions from 0 on that differ from all before them."""
    same = np.tril(cdist(table, table) <= FINEST * largest, -1).any(axis=1)
    return int(same.argmax()) if same.any() else len(table)


def _shared(
    truth: Bool[np.ndarray, "position bit"], read: Bool[np.ndarray, "position bit"]
) -> float:
    pairs = zip(truth.T, read.T, strict=True)
    return float(sum(mutual_info_score(bit, guess) for bit, guess in pairs) / np.log(2))
