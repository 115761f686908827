"""Explanations of one case: each symbol's part in the verdict, by several methods, all judged."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.explanations import saliency
from interp.explanations.case import Case
from interp.explanations.games import EXACT_LIMIT, SCALES, exact_shapley
from interp.explanations.methods import COMPLETE, METHODS, offered
from interp.explanations.scores import FIT, METRICS, Truth, agreement, fit
from interp.model import HookedModel

COSTS = ["calls", "seconds", "completeness", "gain"]
"""Columns of ``explain`` beside the values."""


def explain(
    case: Case, names: Sequence[str] | None = None, seed: int = 0, remember: bool = False
) -> pd.DataFrame:
    """Explains one case by several methods.

    Args:
        names: names of the methods; by default all that can explain this case.
        seed: seed of the methods that draw at random.
        remember: compute the game's 2^T values once, and answer all methods from them; seconds are
            then not measured. Without it every method computes what it asks by itself.

    Returns:
        One row per method, scale and position: method, family, estimand, scale, position (from 0,
        without BOS), value, calls (words that the method had the model score, for all its scales),
        seconds (for all its scales; NaN if not measured), completeness (how far the values miss the
        sum that the method promises, in the scale's unit) and gain (this sum); both are NaN if it
        promises none.

    Raises:
        ValueError: ``remember`` with a word longer than EXACT_LIMIT.
    """
    if remember:
        case.game.values()
    rows, values = [], []
    for name in offered(case) if names is None else names:
        method = METHODS[name]
        trial = case if remember else replace(case, game=case.game.fresh())
        before, start = trial.game.calls, time.perf_counter()
        with _passes(case.model) as passed:
            answers = np.atleast_2d(method.run(trial, seed))
        seconds = np.nan if remember else time.perf_counter() - start
        calls = trial.game.calls - before or sum(passed)
        for scale, value in zip(method.scales, answers, strict=True):
            gain = np.nan
            if name in COMPLETE:
                gain = saliency.gain(case.model, case.word, case.baselines, case.metrics[scale])
            about = name, method.family, method.estimand, scale, calls, seconds
            rows.append((*about, abs(float(value.sum()) - gain), gain))
            values.append(value)
    columns = ["method", "family", "estimand", "scale", *COSTS]
    size = len(case.game.word)
    table = pd.DataFrame(rows, columns=columns).loc[np.repeat(np.arange(len(rows)), size)]
    table.insert(4, "position", np.tile(np.arange(size), len(rows)))
    table.insert(5, "value", np.concatenate(values))
    return table.reset_index(drop=True)


@contextmanager
def _passes(model: HookedModel) -> Iterator[list[int]]:
    """Counts the words that go through the model's embedding."""
    counts: list[int] = []
    if saliency.EMBEDDING not in model.hook_dict:
        yield counts
        return
    handle = model.hook_dict[saliency.EMBEDDING].register_forward_pre_hook(
        lambda module, args: counts.append(len(args[0]))
    )
    try:
        yield counts
    finally:
        handle.remove()


def judge(case: Case, table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """The scores of each method in a table of ``explain``.

    Args:
        table: the table of ``explain``, on this case.
        seed: seed of the order of equal values when symbols are hidden.

    Returns:
        One row per method and scale, and a last one of "chance". Columns: method, family, estimand,
        scale, ``scores.METRICS``, ``COSTS``. "cosine to the model" compares with
        exact Shapley values of the method's own scale; a method without a scale is compared on
        probability. "error" and the two of ``scores.FIT`` are in the scale's unit, and only for the
        family "LIME and SHAP" and for "language", because the others have another unit. Symbols are
        hidden on probability.
    """
    keys = ["method", "scale"]
    about = table.drop_duplicates(keys)[["method", "family", "estimand", "scale", *COSTS]]
    about = about.reset_index(drop=True)
    grid = table.pivot(index=keys, columns="position", values="value")
    values = grid.loc[list(about[keys].itertuples(index=False, name=None))].to_numpy()
    few = len(case.game.word) <= EXACT_LIMIT
    # The output of the game that each row explains; without a scale it is the probability.
    output = np.array([SCALES.index(s) if s in SCALES else 0 for s in about["scale"]])
    exact = exact_shapley(case.game)[output] if few else None  # the game now remembers
    shapley = exact_shapley(case.truth) if few and case.truth is not None else None
    scores = agreement(
        values,
        np.array([METHODS[name].signed for name in about["method"]]),
        case.game.on("probability"),
        Truth(case.rationales, case.effects, shapley),
        exact,
        seed,
    )
    for name in FIT:
        scores[name] = np.nan
    if few:
        fits = pd.DataFrame(fit(values, case.game.values().T[output]))
        scores.loc[fits.index, list(FIT)] = fits
    estimates = (about["family"] == "LIME and SHAP") | (about["method"] == "language")
    units = ["error", *FIT]
    scores[units] = scores[units].where(estimates.reindex(scores.index, fill_value=False))
    chance = {"method": "chance", "family": "control", "estimand": "nothing", "scale": "none"}
    named = pd.concat([about, pd.DataFrame([chance])], ignore_index=True)
    return pd.concat([named.drop(columns=COSTS), scores[list(METRICS)], named[COSTS]], axis=1)


def stability(answers: Float[np.ndarray, "seed time"]) -> float:
    """The likeness of a method's answers with different seeds: their mean pairwise cosine.

    1 means the same up to scale, -1 opposite; NaN with fewer than two answers that are not all 0.
    """
    unit = [a / norm for a in answers if (norm := np.linalg.norm(a)) > 0]
    pairs = [float(a @ b) for a, b in combinations(unit, 2)]
    return float(np.mean(pairs)) if pairs else float("nan")
