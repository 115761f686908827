"""Scores of an explanation: by the language itself, by exact Shapley values, by hiding symbols.

A rationale says which positions decide, not in which direction. So positions are ranked by absolute
values there. Equal values share their ranks; values are rounded to 1e-6 of the largest first. Where
several sets of positions are right, an explanation is held against the one that suits it best. So
it gets full marks for any one of them, and chance gets more than where only one set is right.

Some measures are a method's own estimand: it cannot but do well there. Shapley values are what SHAP
estimates; the effects of substitutions are what "substitution" asks the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.explanations.games import Game, curve, extreme_curves, mean_curve, subsets

RATIONALE = ("AUROC", "average precision", "hit@1", "R-precision", "mass", "NDCG")
COSINES = ("cosine to the effects", "cosine to the language", "cosine to the model")
FIT = ("fit near", "fit far")
HIDING = (
    "comprehensiveness",
    "sufficiency",
    "normalised AOPC",
    "insertion",
    "deletion",
)
METRICS = (*RATIONALE, *COSINES, "error", *FIT, *HIDING)
RANDOM = 1000
"""Random explanations, whose mean score is chance where several sets are right."""

Sets = Sequence[Sequence[int]]
"""Sets of positions, from 0; each is a right answer by itself."""


def against_rationale(
    values: Float[np.ndarray, "method time"], sets: Sets
) -> dict[str, Float[np.ndarray, " method"]]:
    """Do the deciding positions rank above the others? All metrics lie between 0 and 1; 1 is best.

    Every method is held against the set by which its AUROC is highest; among equal ones, against
    the set with the largest mass. Where positions tie, a metric is its expectation over all orders
    of the ties.

    - "AUROC": the chance that a deciding position ranks above another one.
    - "average precision": with one threshold per tie, as in scikit-learn.
    - "hit@1": does the first position decide?
    - "R-precision": if R positions decide, the share of deciding ones among the first R.
    - "mass": the deciding positions' share of the sum of absolute values; if all values are 0, they
      count as equal.
    - "NDCG": normalised discounted cumulative gain (Järvelin and Kekäläinen 2002).

    Args:
        values: values of each method's explanation.
        sets: the rationales.

    Returns:
        By metric, one number per method; NaN if a set holds all positions or none, and without
        sets.
    """
    size = values.shape[1]
    right = _as_rows(sets, size)
    if not _ranks(right):
        return dict.fromkeys(RATIONALE, np.full(len(values), np.nan))
    value = np.abs(values)
    largest = value.max(axis=1, keepdims=True)
    share = np.divide(value, largest, out=np.ones_like(value), where=largest > 0)
    level = np.rint(share * 1e6)
    above = level[:, None, :] > level[:, :, None]  # [method, position, other]
    equal = level[:, None, :] == level[:, :, None]
    greater, ties = above.sum(axis=2), equal.sum(axis=2)
    mass = share / share.sum(axis=1, keepdims=True)
    decides = _best(right, size - greater - ties + (ties - 1) / 2, mass)
    count = decides.sum(axis=1)[:, None]
    others = ~decides[:, None, :]
    won = (~above & ~equal & others).sum(axis=2) + (equal & others).sum(axis=2) / 2
    ahead = above | equal
    discount = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, size + 2)))])
    gain = (discount[greater + ties] - discount[greater]) / ties
    scores = {
        "AUROC": won / (size - count),
        "average precision": (ahead & decides[:, None, :]).sum(axis=2) / ahead.sum(axis=2),
        "hit@1": (greater == 0) / ties * count,
        "R-precision": np.clip(count - greater, 0, ties) / ties,
        "mass": mass * count,
        "NDCG": gain / discount[count] * count,
    }
    return {name: (score * decides).sum(axis=1) / count[:, 0] for name, score in scores.items()}


def _as_rows(sets: Sets, size: int) -> Bool[np.ndarray, "set time"]:
    rows = np.zeros((len(sets), size), dtype=bool)
    for row, positions in zip(rows, sets, strict=True):
        row[list(positions)] = True
    return rows


def _ranks(sets: Bool[np.ndarray, "set time"]) -> bool:
    """Can positions be ranked against these sets? Not if one of them holds all, or none."""
    count = sets.sum(axis=1)
    return len(sets) > 0 and bool(((count > 0) & (count < sets.shape[1])).all())


def _best(
    sets: Bool[np.ndarray, "set time"],
    rank: Float[np.ndarray, "method time"],
    mass: Float[np.ndarray, "method time"],
) -> Bool[np.ndarray, "method time"]:
    """The set that suits each method best; ``rank`` counts from 0, and ties share the mean."""
    count = sets.sum(axis=1)
    inside = rank @ sets.T - count * (count - 1) / 2
    auroc = inside / (count * (sets.shape[1] - count))  # Mann and Whitney's count of pairs
    chosen: Bool[np.ndarray, "method time"] = sets[(auroc + 1e-6 * (mass @ sets.T)).argmax(axis=1)]
    return chosen


def chance(size: int, sets: Sets) -> dict[str, float]:
    """The scores of random values under ``against_rationale``, on average.

    In closed form for one set; for several it is the mean over ``RANDOM`` explanations.

    Args:
        size: number of positions in the word.
        sets: the rationales.
    """
    if not _ranks(_as_rows(sets, size)):
        return dict.fromkeys(RATIONALE, float("nan"))
    if len(sets) > 1:
        return dict(_chance_of_many(size, tuple(map(tuple, sets))))
    count = len(sets[0])
    harmonic = float((1 / np.arange(1, size + 1)).sum())
    precision = ((count - 1) / (size - 1) * (size - harmonic) + harmonic) / size
    discount = 1 / np.log2(np.arange(2, size + 2))
    ndcg = count * float(discount.mean()) / float(discount[:count].sum())
    share = count / size
    return dict(zip(RATIONALE, (0.5, precision, share, share, share, ndcg), strict=True))


@lru_cache(maxsize=256)
def _chance_of_many(size: int, sets: tuple[tuple[int, ...], ...]) -> dict[str, float]:
    values = np.random.default_rng(0).normal(size=(RANDOM, size))
    return {name: float(scores.mean()) for name, scores in against_rationale(values, sets).items()}


def cosine(
    values: Float[np.ndarray, "method time"],
    reference: Float[np.ndarray, " time"] | Float[np.ndarray, "method time"] | None,
) -> Float[np.ndarray, " method"]:
    """The cosine of the angle between values and a reference, one for all or one for each.

    1 means the same up to scale, 0 unrelated or all values zero, -1 opposite. It is NaN without a
    reference, and if the reference is zero, since no symbol matters then.
    """
    if reference is None:
        return np.full(len(values), np.nan)
    length, other = np.linalg.norm(values, axis=1), np.linalg.norm(reference, axis=-1)
    product = np.broadcast_to((values * reference).sum(axis=-1), len(values))
    size = length * other
    cosines = np.divide(product, size, out=np.zeros(len(values)), where=size > 0)
    return np.where(other > 1e-9, cosines, np.nan)


def fit(
    values: Float[np.ndarray, "method time"], played: Float[np.ndarray, "method subset"]
) -> dict[str, Float[np.ndarray, " method"]]:
    """Does a sum of the values of kept positions follow the game near the word, and far from it?

    LIME promises to be right near the word alone. "fit near" is R2 over all coalitions that hide at
    most a third of the positions, "fit far" over all that show at most a third. The sum may have
    any constant: only the values are judged. R2 below -1 counts as -1.

    Args:
        values: values of each method's explanation.
        played: the values of all coalitions in the game that the method explains.

    Returns:
        By region, one number per method; NaN where the game is constant in the region.
    """
    size = values.shape[1]
    keep = subsets(size)
    shown = keep.sum(axis=1)
    sums = values @ keep.T
    scores = {}
    for name, region in zip(FIT, (shown >= size - size // 3, shown <= size // 3), strict=True):
        spread = played[:, region].var(axis=1)
        missed = (played - sums)[:, region].var(axis=1)
        varies = spread > 1e-9
        share = np.divide(missed, spread, out=np.full(len(values), np.nan), where=varies)
        scores[name] = np.maximum(1 - share, -1.0)
    return scores


@dataclass(frozen=True)
class Truth:
    """The truth of the language about one word.

    Attributes:
        rationales: the sets of positions that decide; None if none are known.
        effects: the rate at which another symbol in a place turns the membership around, 0 to 1;
            negative for a word outside the language, because its symbols speak against it;
            None if not known.
        shapley: the exact Shapley values of membership, or None.
    """

    rationales: Sets | None = None
    effects: Float[np.ndarray, " time"] | None = None
    shapley: Float[np.ndarray, " time"] | None = None


def by_hiding(
    values: Float[np.ndarray, "method time"], game: Game, seed: int = 0
) -> dict[str, Float[np.ndarray, " method"]]:
    """The effect on the verdict of hiding or showing positions in the order of their values.

    Let p be the probability of the model's own verdict on the word.

    - "comprehensiveness": p of the whole word minus the mean of p with the first k positions
      hidden, over k = 1 .. T (DeYoung et al. 2020).
    - "sufficiency": the same with only the first k positions shown; lower is better.
    - "deletion", "insertion": the means of p with the first k positions hidden, and with only the
      first k shown, over k = 0 .. T (Petsiuk et al. 2018); lower is better for deletion.
    - "normalised AOPC" (area over the perturbation curve): where "deletion" lies between the worst
      order of all (0) and the best (1) (Edin et al. 2025). NaN if all orders do alike, or if the
      game does not remember the values of all coalitions.

    Args:
        values: values of each method's explanation; higher speaks for the verdict.
        game: the game of the probability of "in the language"; its calls are not counted here.
        seed: seed of the order of equal values.

    Returns:
        By metric, one number per method.
    """
    size = values.shape[1]
    largest = np.abs(values).max(axis=1, keepdims=True)
    share = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    shuffled = np.random.default_rng(seed).permutation(size)
    order = np.lexsort((np.broadcast_to(shuffled, values.shape), -np.rint(share * 1e6)), axis=1)
    calls = game.calls
    hidden, shown = curve(game, order, show=False), curve(game, order, show=True)
    accepted = hidden[0, 0] >= 0.5
    if not accepted:
        hidden, shown = 1 - hidden, 1 - shown
    game.calls = calls  # judging a method is not its cost
    scores = {
        "comprehensiveness": hidden[:, 0] - hidden[:, 1:].mean(axis=1),
        "sufficiency": hidden[:, 0] - shown[:, 1:].mean(axis=1),
        "normalised AOPC": np.full(len(values), np.nan),
        "insertion": shown.mean(axis=1),
        "deletion": hidden.mean(axis=1),
    }
    if game.remembers:
        least, most = extreme_curves(game.values() if accepted else 1 - game.values())
        if most - least > 1e-6:
            scores["normalised AOPC"] = (most - scores["deletion"]) / (most - least)
    return scores


def _any_order(game: Game) -> dict[str, float]:
    """The scores of a random order under ``by_hiding``, on average.

    All are NaN if the game does not remember the values of all coalitions.
    """
    if not game.remembers:
        return dict.fromkeys(HIDING, float("nan"))
    values = game.values()
    if values[-1] < 0.5:
        values = 1 - values
    shown = mean_curve(values)
    least, most = extreme_curves(values)
    area = float(shown.mean())
    return {
        "comprehensiveness": float(shown[-1] - shown[:-1].mean()),
        "sufficiency": float(shown[-1] - shown[1:].mean()),
        "normalised AOPC": (most - area) / (most - least) if most - least > 1e-6 else np.nan,
        "insertion": area,
        "deletion": area,
    }


def agreement(
    values: Float[np.ndarray, "method time"],
    signed: Bool[np.ndarray, " method"],
    game: Game,
    truth: Truth,
    exact: Float[np.ndarray, " time"] | Float[np.ndarray, "method time"] | None,
    seed: int = 0,
) -> pd.DataFrame:
    """``METRICS`` of several explanations of one word, all but ``FIT``.

    Args:
        values: values of each method's explanation. Positive speaks for "in the language" where
            ``signed``, and else for the verdict.
        signed: whether each method's values are signed.
        game: the game of the model's verdict, on probability.
        truth: the truth of the language about the word.
        exact: the model's exact Shapley values, one row for all methods or one for each, or None.
        seed: seed of the order of equal values when symbols are hidden.

    Returns:
        One row per method, and a last one of what chance gets. "error" is the mean absolute
        difference from ``exact``. What cannot be computed is NaN.
    """
    size = values.shape[1]
    verdict = 1.0 if verdict_of(game) else -1.0
    speaks = np.where(signed[:, None], verdict * values, values)
    scores = against_rationale(values, truth.rationales or ())
    references = (truth.effects, truth.shapley, exact)
    for name, reference in zip(COSINES, references, strict=True):
        scores[name] = cosine(speaks, None if reference is None else verdict * reference)
    missing = np.full(len(values), np.nan)
    scores["error"] = missing if exact is None else np.abs(values - exact).mean(axis=1)
    table = pd.DataFrame(scores | by_hiding(speaks, game, seed))
    nothing = chance(size, truth.rationales or ()) | _any_order(game)
    nothing |= {name: 0.0 for name in COSINES if table[name].notna().any()}
    return pd.concat([table, pd.DataFrame([nothing])], ignore_index=True)


def verdict_of(game: Game) -> bool:
    """Does the score say that the whole word is in the language (at least 0.5)?

    The question does not count as a call of the game.
    """
    calls = game.calls
    accepted = bool(game(np.ones((1, len(game.word)), dtype=bool))[0] >= 0.5)
    game.calls = calls
    return accepted
