"""The bits that a variable takes once the activations are known (Voita and Titov 2020).

In the online code the variable's values are sent in portions. The first portion is sent with the
uniform code. Each later portion is coded by a probe that was fitted on all portions before it. A
variable that can be read after few examples costs few bits. Its compression, the uniform code's
bits over the online code's, is then high. Unlike a probe's score, compression falls if the probe
has to learn much by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import norm
from sklearn.linear_model import RidgeCV

from interp.model import require_finite
from interp.probing.linear import Kind, fit_linear, many_small_fits, standardise
from interp.probing.probes import Target

PORTIONS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.0625, 0.125, 0.25, 0.5, 1.0)
"""Where the portions end, as shares of all examples; the numbers are Voita and Titov's."""
MOST_CODED = 1_500


def online_bits(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    kind: Kind,
    portions: Sequence[float] = PORTIONS,
) -> float:
    """Bits of all ``n`` values in the online code, sent in the order given.

    The uniform code, which knows the possible values and no more, is that of a single portion. The
    possible values of a category are those that occur; those of a count are all whole numbers from
    its smallest to its largest.

    A category is coded by the linear probe's probabilities. A count is coded by a normal
    distribution over the whole numbers of its range: its mean is the ridge probe's prediction, and
    it is as wide as the probe's leave-one-out errors. Both are smoothed by one extra count for each
    possible value. A surprise after t examples then costs about log2(t + number of values) bits,
    and never infinitely many.

    Args:
        x: activations.
        y: the variable's values; a word's positions should stand together.
        kind: "count" or "category".
        portions: the ends of the portions, as shares of all examples, rising to 1.
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


def code_lengths(
    sites: Mapping[str, Float[np.ndarray, "batch pos d"]],
    targets: Mapping[str, Target],
    seed: int = 0,
    most: int = MOST_CODED,
) -> pd.DataFrame:
    """The online code of every target given every site, on whole words in random order.

    Args:
        sites: activations by name.
        targets: the hidden variables by name.
        seed: seed of the order of the words.
        most: the most positions whose values are sent.

    Returns:
        One row per target and site: probe ("online code"), site, target, metric ("compression"),
        score (the uniform code's bits over the online code's), bits (of the online code), n_train
        and n_test (both the number of positions sent). A target with one possible value has no row.

    Raises:
        ValueError: activations are NaN or infinite.
    """
    for site, activation in sites.items():
        require_finite(activation, site)
    rows = []
    with many_small_fits():
        for name, target in targets.items():
            order = np.random.default_rng(seed).permutation(len(target.mask))
            word, position = np.nonzero(target.mask[order])
            word, position = order[word[:most]], position[:most]
            y = target.values[word, position]
            uniform = online_bits(np.empty((len(y), 0)), y, target.kind, portions=(1.0,))
            if uniform == 0:
                continue
            for site, activation in sites.items():
                bits = online_bits(activation[word, position], y, target.kind)
                row: dict[str, object] = {"probe": "online code", "site": site, "target": name}
                row |= {"metric": "compression", "score": uniform / bits, "bits": bits}
                rows.append(row | {"n_train": len(y), "n_test": len(y)})
    return pd.DataFrame(rows)


def _alphabet(y: Int[np.ndarray, " n"], kind: Kind) -> Int[np.ndarray, " values"]:
    return np.unique(y) if kind == "category" else np.arange(y.min(), y.max() + 1)


def _probabilities(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    new: Float[np.ndarray, "m d"],
    alphabet: Int[np.ndarray, " values"],
    kind: Kind,
) -> Float[np.ndarray, "m values"]:
    """The probability of each value at the new activations, by a probe fitted on x and y."""
    p = np.zeros((len(new), len(alphabet)))
    seen, counts = np.unique(y, return_counts=True)
    if len(seen) == 1 or len(y) < 3:
        p[:, np.searchsorted(alphabet, seen)] = counts / len(y)
        return p
    z, new = standardise(x, new)
    if kind == "category":
        p[:, np.searchsorted(alphabet, seen)] = fit_linear(z, y, kind).predict_proba(new)
        return p
    probe = RidgeCV([1.0]).fit(z, y)  # the linear probe, with its leave-one-out errors
    width = max(float(np.sqrt(-probe.best_score_)), 1e-6)
    edges = np.concatenate([[-np.inf], (alphabet[:-1] + alphabet[1:]) / 2, [np.inf]])
    return np.diff(norm.cdf(edges, probe.predict(new)[:, None], width), axis=1)
