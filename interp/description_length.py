"""How many bits does a variable take, once the activations are known? (Voita and Titov 2020)

Online coding: the values are sent in portions. The first is sent with the uniform code; a probe
fitted on all that was sent before then codes the next one. A variable that is easy to read from few
examples costs few bits, and compression, the uniform code's bits over these, is high. Unlike a
score it falls where the probe must learn much by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import norm
from sklearn.preprocessing import StandardScaler

from interp.perceptrons import Kind
from interp.probing import fit_probe

PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Of all examples, where the portions end: Voita and Titov's."""


def uniform_bits(y: Int[np.ndarray, " n"], kind: Kind) -> float:
    """Of the code that knows the possible values alone: those of a category; of a count its range.

    Bits of all ``n`` values.
    """
    return len(y) * float(np.log2(max(len(_alphabet(y, kind)), 1)))


def online_bits(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    kind: Kind,
    portions: Sequence[float] = PORTIONS,
) -> float:
    """Bits of all ``n`` values, in the order given (a word's positions together, say).

    A category is coded by the linear probe's probabilities; a count by a normal distribution about
    the ridge probe's prediction, as wide as its leave-one-out errors, over the whole numbers of the
    range. Both are smoothed by one count of the uniform distribution, so that a surprise after t
    examples costs about log2 of (t + values) bits and never infinitely many.
    """
    alphabet = _alphabet(y, kind)
    ends = sorted({max(1, round(share * len(y))) for share in portions})
    bits = ends[0] * float(np.log2(max(len(alphabet), 1)))
    for start, end in pairwise(ends):
        p = _probabilities(x[:start], y[:start], x[start:end], alphabet, kind)
        smooth = (start * p + 1) / (start + len(alphabet))
        place = np.searchsorted(alphabet, y[start:end])
        bits -= float(np.log2(smooth[np.arange(end - start), place]).sum())
    return bits


def _alphabet(y: Int[np.ndarray, " n"], kind: Kind) -> Int[np.ndarray, " values"]:
    return np.unique(y) if kind == "category" else np.arange(y.min(), y.max() + 1)


def _probabilities(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    new: Float[np.ndarray, "m d"],
    alphabet: Int[np.ndarray, " values"],
    kind: Kind,
) -> Float[np.ndarray, "m values"]:
    """What was learned from x and y says of the values at the new ones."""
    p = np.zeros((len(new), len(alphabet)))
    seen, counts = np.unique(y, return_counts=True)
    if len(seen) == 1 or len(y) < 3:
        p[:, np.searchsorted(alphabet, seen)] = counts / len(y)
        return p
    if kind == "category":
        fitted = fit_probe(x, y, kind)
        p[:, np.searchsorted(alphabet, fitted.classes_)] = fitted.predict_proba(new)
        return p
    read, width = _ridge(x, y, new)
    edges = np.concatenate([[-np.inf], (alphabet[:-1] + alphabet[1:]) / 2, [np.inf]])
    return np.diff(norm.cdf(edges, read[:, None], max(width, 1e-6)), axis=1)


def _ridge(
    x: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], new: Float[np.ndarray, "m d"]
) -> tuple[Float[np.ndarray, " m"], float]:
    """What the ridge probe reads at the new ones, and the root of its mean square error at each
    old one when that is left out: as ``RidgeCV(alphas=[1.0])`` on standardised x, without its
    checks, which cost more than the rest of a code in eleven portions.
    """
    scale = StandardScaler().fit(x)
    old = scale.transform(x).astype(np.float64)
    solved = np.linalg.solve(old.T @ old + np.eye(old.shape[1]), old.T)  # [d, n]
    centre = y.mean()
    weights = solved @ (y - centre)
    leverage = np.einsum("nd,dn->n", old, solved) + 1 / len(y)
    error = (y - centre - old @ weights) / (1 - leverage)
    return scale.transform(new) @ weights + centre, float(np.sqrt((error**2).mean()))
