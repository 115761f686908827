"""Scores of a method about training lines, against trainings that lacked lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import rankdata
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold

FOLDS = 5
STRENGTHS = tuple(10.0 ** np.arange(-2, 5))
"""Strengths of the shrinkage of a datamodel: one is chosen inside each training part."""


def predicted(
    influence: Float[np.ndarray, "target line"], kept: Bool[np.ndarray, "training line"]
) -> Float[np.ndarray, "training target"]:
    """The expectation of a method for each training: the sum of the influences of its lines."""
    return kept.astype(np.float64) @ influence.T.astype(np.float64)


def datamodel(
    outcomes: Float[np.ndarray, "training target"], kept: Bool[np.ndarray, "training line"]
) -> Float[np.ndarray, "training target"]:
    """The expectation for a training by ridge regression on the lines it had (Ilyas et al. 2022).

    It learned from other trainings than the one that it says something about. So it is what as many
    trainings can teach about lines without a look inside the network.

    Its constant is left out. The mean of the other trainings is the lower, the higher those are
    that it says something about: this alone would make a negative correlation.
    """
    signs, expected = np.where(kept, 1.0, -1.0), np.zeros_like(outcomes)
    for learnt, tests in KFold(FOLDS, shuffle=True, random_state=0).split(signs):
        fitted = RidgeCV(STRENGTHS, alpha_per_target=True).fit(signs[learnt], outcomes[learnt])
        expected[tests] = signs[tests] @ fitted.coef_.T
    return expected


def lds(
    outcomes: Float[np.ndarray, "*draws training target"],
    expected: Float[np.ndarray, "*draws training target"],
) -> Float[np.ndarray, "*draws target"]:
    """The linear datamodelling score of each target: Spearman's rank correlation, over trainings,
    of the outcomes and what was expected (Park et al. 2023).

    0 where all of one side is alike: nothing was ordered.
    """
    one, other = (_standardised(rankdata(values, axis=-2)) for values in (outcomes, expected))
    return (one * other).mean(axis=-2)


def lds_interval(
    outcomes: Float[np.ndarray, "training target"],
    expected: Float[np.ndarray, "training target"],
    resamples: int = 500,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The mean over targets of ``lds``, with a 95% percentile bootstrap interval over trainings."""
    drawn = np.random.default_rng(seed).integers(len(outcomes), size=(resamples, len(outcomes)))
    means = lds(outcomes[drawn], expected[drawn]).mean(axis=-1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(lds(outcomes, expected).mean()), float(low), float(high)


def _standardised(values: Float[np.ndarray, "*draws training target"]) -> np.ndarray:
    spread = values.std(axis=-2, keepdims=True)
    centred = values - values.mean(axis=-2, keepdims=True)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)


def precision_at(scores: Sequence[float] | np.ndarray, culprits: np.ndarray, k: int) -> float:
    """The share of culprits among the k lines with the highest scores.

    Of lines with equal scores each is as likely to be among them: the expected share is given.

    Args:
        culprits: True for a line that is one, [line].
    """
    scores = np.asarray(scores, dtype=np.float64)
    least = np.sort(scores)[-k]
    above, tied = scores > least, scores == least
    return float((culprits[above].sum() + culprits[tied].mean() * (k - above.sum())) / k)
