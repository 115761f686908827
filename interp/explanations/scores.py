"""How right is an explanation, by a rationale, by exact Shapley values, and by hiding symbols?

A rationale says which positions decide, not in which direction. So positions are ranked by absolute
values there. Equal values share their ranks; values are rounded to 1e-6 of the largest first.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.explanations.games import Game, curve, extreme_curves, mean_curve

RATIONALE = ("AUROC", "average precision", "hit@1", "R-precision", "mass", "NDCG")
SHAPLEY = ("cosine to the model", "cosine to the language", "error")
HIDING = (
    "comprehensiveness",
    "sufficiency",
    "normalised AOPC",
    "insertion",
    "deletion",
)
METRICS = (*RATIONALE, *SHAPLEY, *HIDING)
LOWER = ("error", "sufficiency", "deletion")
"""Metrics of which a lower value is better."""


def against_rationale(
    values: Float[np.ndarray, "method time"], decides: Bool[np.ndarray, " time"]
) -> dict[str, Float[np.ndarray, " method"]]:
    """Do the deciding positions rank above the others? All metrics lie between 0 and 1; 1 is best.

    Where positions tie, a metric is its expectation over all orders of the ties.

    - "AUROC": the chance that a deciding position ranks above another one.
    - "average precision": with one threshold per tie, as in scikit-learn.
    - "hit@1": does the first position decide?
    - "R-precision": if R positions decide, the share of deciding ones among the first R.
    - "mass": the deciding positions' share of the sum of absolute values; if all values are 0, they
      count as equal.
    - "NDCG": normalised discounted cumulative gain (Järvelin and Kekäläinen 2002).

    Args:
        values: of each method's explanation.
        decides: True for the positions of the rationale.

    Returns:
        By metric, one number per method; NaN if all positions decide, or none.
    """
    count, size = int(decides.sum()), len(decides)
    if not 0 < count < size:
        return dict.fromkeys(RATIONALE, np.full(len(values), np.nan))
    value = np.abs(values)
    largest = value.max(axis=1, keepdims=True)
    share = np.divide(value, largest, out=np.ones_like(value), where=largest > 0)
    level = np.rint(share * 1e6)
    above = level[:, None, :] > level[:, :, None]  # [method, position, other]
    equal = level[:, None, :] == level[:, :, None]
    greater, ties = above.sum(axis=2), equal.sum(axis=2)
    beaten = (~above & ~equal)[:, :, ~decides].sum(axis=2)
    drawn = equal[:, :, ~decides].sum(axis=2)
    ahead = above | equal
    discount = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, size + 2)))])
    gain = (discount[greater + ties] - discount[greater]) / ties
    found = {
        "AUROC": (beaten + drawn / 2) / (size - count),
        "average precision": ahead[:, :, decides].sum(axis=2) / ahead.sum(axis=2),
        "hit@1": (greater == 0) / ties * count,
        "R-precision": np.clip(count - greater, 0, ties) / ties,
        "mass": share / share.sum(axis=1, keepdims=True) * count,
        "NDCG": gain / discount[count] * count,
    }
    return {name: each[:, decides].mean(axis=1) for name, each in found.items()}


def chance(size: int, count: int) -> dict[str, float]:
    """What random values get from ``against_rationale``, on average.

    Args:
        size: positions in the word.
        count: how many of them decide.
    """
    if not 0 < count < size:
        return dict.fromkeys(RATIONALE, float("nan"))
    harmonic = float((1 / np.arange(1, size + 1)).sum())
    precision = ((count - 1) / (size - 1) * (size - harmonic) + harmonic) / size
    discount = 1 / np.log2(np.arange(2, size + 2))
    ndcg = count * float(discount.mean()) / float(discount[:count].sum())
    share = count / size
    return dict(zip(RATIONALE, (0.5, precision, share, share, share, ndcg), strict=True))


def cosine(
    values: Float[np.ndarray, "method time"], reference: Float[np.ndarray, " time"] | None
) -> Float[np.ndarray, " method"]:
    """The cosine of the angle between values and a reference.

    1 means the same up to scale, 0 unrelated or all values zero, -1 opposite. It is NaN without a
    reference, and if the reference is zero, since no symbol matters then.
    """
    if reference is None or not np.linalg.norm(reference) > 1e-9:
        return np.full(len(values), np.nan)
    length = np.linalg.norm(values, axis=1)
    unit = np.divide(values, length[:, None], out=np.zeros_like(values), where=length[:, None] > 0)
    return unit @ reference / np.linalg.norm(reference)


def by_hiding(
    values: Float[np.ndarray, "method time"], game: Game, seed: int = 0
) -> dict[str, Float[np.ndarray, " method"]]:
    """What hiding or showing the positions in the order of their values does to the verdict.

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
        values: of each method's explanation; higher speaks for the verdict.
        game: its calls are not counted here.
        seed: of the order of equal values.

    Returns:
        By metric, one number per method.
    """
    size = values.shape[1]
    largest = np.abs(values).max(axis=1, keepdims=True)
    share = np.divide(values, largest, out=np.zeros_like(values), where=largest > 0)
    shuffled = np.random.default_rng(seed).permutation(size)
    order = np.lexsort((np.broadcast_to(shuffled, values.shape), -np.rint(share * 1e6)), axis=1)
    asked = game.calls
    hidden, shown = curve(game, order, show=False), curve(game, order, show=True)
    accepted = hidden[0, 0] >= 0.5
    if not accepted:
        hidden, shown = 1 - hidden, 1 - shown
    game.calls = asked  # judging a method is not its cost
    found = {
        "comprehensiveness": hidden[:, 0] - hidden[:, 1:].mean(axis=1),
        "sufficiency": hidden[:, 0] - shown[:, 1:].mean(axis=1),
        "normalised AOPC": np.full(len(values), np.nan),
        "insertion": shown.mean(axis=1),
        "deletion": hidden.mean(axis=1),
    }
    if game.remembers:
        least, most = extreme_curves(game.values() if accepted else 1 - game.values())
        if most - least > 1e-6:
            found["normalised AOPC"] = (most - found["deletion"]) / (most - least)
    return found


def any_order(game: Game) -> dict[str, float]:
    """What a random order gets from ``by_hiding``, on average.

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
    exact: Float[np.ndarray, " time"] | None,
    truth: Float[np.ndarray, " time"] | None,
    rationale: tuple[int, ...] | None,
    seed: int = 0,
) -> pd.DataFrame:
    """All ``METRICS`` of several explanations of one word.

    Args:
        values: of each method's explanation. Positive speaks for "in the language" where
            ``signed``, and else for the verdict.
        signed: of each method.
        game: of the model's verdict.
        exact: the model's exact Shapley values, or None.
        truth: the exact Shapley values of the language in the same game, or None.
        rationale: the positions that decide, from 0, or None.
        seed: of the order of equal values when symbols are hidden.

    Returns:
        One row per method, and a last one of what chance gets; the columns are ``METRICS``. "error"
        is the mean absolute difference from ``exact``. What cannot be computed is NaN.
    """
    size = values.shape[1]
    decides = np.isin(np.arange(size), rationale or ())
    verdict = 1.0 if verdict_of(game) else -1.0
    speaks = np.where(signed[:, None], verdict * values, values)
    found = against_rationale(values, decides)
    for name, reference in zip(SHAPLEY[:2], (exact, truth), strict=True):
        found[name] = cosine(speaks, None if reference is None else verdict * reference)
    missing = np.full(len(values), np.nan)
    found["error"] = missing if exact is None else np.abs(values - exact).mean(axis=1)
    table = pd.DataFrame(found | by_hiding(speaks, game, seed))
    nothing = chance(size, int(decides.sum())) | any_order(game)
    nothing |= {name: 0.0 for name in SHAPLEY[:2] if table[name].notna().any()}
    return pd.concat([table, pd.DataFrame([nothing])], ignore_index=True)[list(METRICS)]


def verdict_of(game: Game) -> bool:
    """Does the score say that the whole word is in the language (at least 0.5)?

    The question does not count as a call of the game.
    """
    asked = game.calls
    accepted = bool(game(np.ones((1, len(game.word)), dtype=bool))[0] >= 0.5)
    game.calls = asked
    return accepted
