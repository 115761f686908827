"""Is the score of two tokens larger, the more alike they are? So the dot product suggests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

PERMUTATIONS = 2000


@dataclass(frozen=True)
class Agreement:
    """The agreement of scores with the cosine of embeddings.

    Attributes:
        others: Spearman's correlation over all ordered pairs of different tokens; NaN if all scores
            or all cosines are equal.
        p: p-value of Mantel's permutation test of ``others``, two-sided: tokens change places in
            one of the two matrices, since the pairs of one token are not independent.
        everything: the correlation over all pairs, a token with itself too, whose cosine is 1.
        without: ``others`` without each token in turn.
    """

    others: float
    p: float
    everything: float
    without: Float[np.ndarray, " token"]


def agreement_with_cosine(
    scores: Float[np.ndarray, "token token"],
    embeddings: Float[np.ndarray, "token d_model"],
    seed: int = 0,
) -> Agreement:
    """The agreement of a head's scores with the cosine of the tokens' embeddings.

    Args:
        scores: scores of a query (down) for a key (across), as ``qk_circuit`` gives them.
        embeddings: embeddings of the same tokens.
        seed: seed of the permutations.
    """
    length = np.linalg.norm(embeddings, axis=1, keepdims=True)
    units = embeddings / np.where(length > 0, length, 1.0)
    # What differs by rounding alone is one rank: a cosine has two places in the matrix.
    cosine, scores = (units @ units.T).round(9), scores.round(9)
    tokens = np.arange(len(scores))
    apart = tokens[:, None] != tokens

    def over(pairs: Bool[np.ndarray, "token token"]) -> float:
        return _correlation(_ranks(scores[pairs]), _ranks(cosine[pairs]))

    value, everything = over(apart), over(np.ones_like(apart))
    without = np.array([over(apart & (tokens != i) & (tokens[:, None] != i)) for i in tokens])
    if np.isnan(value):
        return Agreement(value, float("nan"), everything, without)
    one, other = np.zeros(scores.shape), np.zeros(scores.shape)
    one[apart], other[apart] = _ranks(scores[apart]), _ranks(cosine[apart])
    rng = np.random.default_rng(seed)
    orders = (rng.permutation(len(scores)) for _ in range(PERMUTATIONS))
    drawn = np.array([_correlation(one[apart], _turned(other, order)[apart]) for order in orders])
    as_far = int((np.abs(drawn) >= abs(value) - 1e-12).sum())
    return Agreement(value, (1 + as_far) / (1 + PERMUTATIONS), everything, without)


def _turned(
    matrix: Float[np.ndarray, "token token"], order: Int[np.ndarray, " token"]
) -> Float[np.ndarray, "token token"]:
    return matrix[np.ix_(order, order)]


def _ranks(values: Float[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
    """Ranks around 0; ties share the mean."""
    return rankdata(values) - (len(values) + 1) / 2


def _correlation(one: Float[np.ndarray, " pair"], other: Float[np.ndarray, " pair"]) -> float:
    size = float(np.sqrt((one @ one) * (other @ other)))
    return float(one @ other) / size if size > 0 else float("nan")
