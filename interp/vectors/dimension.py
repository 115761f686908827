"""The number of dimensions that vectors fill."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from interp.statistics import bootstrap_sums

RESAMPLES = 300


def participation_ratios(
    x: Float[np.ndarray, "sample d"], unit: Int[np.ndarray, " sample"]
) -> tuple[float, float, float]:
    """(tr C)^2 / tr C^2 of the covariance C of vectors (Gao et al. 2017), with its 95% bootstrap
    interval over units.

    It is d if all d directions vary alike, and 1 if only one varies: with eigenvalues l of C it is
    (sum l)^2 / sum l^2. NaN if nothing varies.

    Args:
        unit: the word of each vector, from 0 on: the vectors of a word are drawn together.

    Returns:
        value, low, high; with a single unit low and high are NaN. A draw with replacement has fewer
        different vectors than the sample. Of few words the interval is therefore a little too low.
    """
    x = x - x.mean(axis=0)  # the covariance of large numbers would lose its digits
    width = x.shape[1]
    sums = np.zeros((unit.max() + 1, 1 + width + width**2))
    np.add.at(sums[:, 0], unit, 1.0)
    np.add.at(sums[:, 1 : 1 + width], unit, x)
    for word in np.unique(unit):
        rows = x[unit == word]
        sums[word, 1 + width :] = (rows.T @ rows).ravel()

    def ratio(total: Float[np.ndarray, "*draws part"]) -> Float[np.ndarray, "*draws"]:
        count, mean = total[..., :1], total[..., 1 : 1 + width] / total[..., :1]
        second = (total[..., 1 + width :] / count).reshape(*total.shape[:-1], width, width)
        c = second - mean[..., :, None] * mean[..., None, :]
        size = np.trace(c, axis1=-2, axis2=-1)
        return np.asarray(
            np.where(size > 1e-18, size, np.nan) ** 2 / np.maximum((c**2).sum((-2, -1)), 1e-300)
        )

    value, low, high = bootstrap_sums(sums, ratio, resamples=RESAMPLES)
    return float(value), float(low), float(high)
