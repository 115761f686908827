"""Summaries of a table with a row per word, for each part of a model: means, intervals, tests.

A third of the different words chooses: whoever names the part with the largest mean names it by
these words. All other numbers are of the other words. Equal words are one unit: they stay on one
side, and they are drawn and tested together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from interp.comparisons import corrected
from interp.statistics import bootstrap_sums

Claim = Callable[[Float[np.ndarray, " word"], Int[np.ndarray, " word"]], float]
"""The p-value of what is claimed of a part, from its values and the units of the words."""


def over_words(
    per_word: pd.DataFrame,
    unit: Int[np.ndarray, " word"],
    claim: Claim | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Summarises the parts (columns) over words (rows); a word without a value is left out.

    Args:
        per_word: one column per part; a column "L0H1" is a head.
        unit: equal numbers for equal words, from 0 on.
        claim: the claim about each part; without it there is no p-value.
        seed: seed of the draw of the words that choose.

    Returns:
        One row per part: part, layer and head (-1 where the part is no single head), choice (the
        mean over the words that choose), value (the mean over the others), low and high (95%
        bootstrap over units), corrected (the p-value, by Holm's method over the parts), words (with
        a value, of those that do not choose), different (units among these), undefined (words
        without a value).
    """
    scored, everything = _scores(unit, seed), per_word.to_numpy(dtype=np.float64)
    values, units = everything[scored], unit[scored]
    defined = ~np.isnan(values)
    sums = np.zeros((units.max() + 1, values.shape[1], 2))
    np.add.at(sums, units, np.stack([np.where(defined, values, 0), defined], axis=2))
    value, low, high = bootstrap_sums(sums[np.unique(units)], _mean)
    p = np.full(len(value), np.nan)
    if claim is not None:
        p = corrected(np.array([claim(column, units) for column in values.T]))
    numbers = per_word.columns.str.extract(r"^L(\d+)H(\d+)$").apply(pd.to_numeric)
    numbers = numbers.fillna(-1).astype(int)
    return pd.DataFrame(
        {
            "part": per_word.columns,
            "layer": numbers[0],
            "head": numbers[1],
            "choice": per_word[~scored].mean().to_numpy(dtype=np.float64),
            "value": value,
            "low": low,
            "high": high,
            "corrected": p,
            "words": defined.sum(axis=0),
            "different": (sums[..., 1] > 0).sum(axis=0),
            "undefined": (~defined).sum(axis=0),
        }
    )


def _scores(unit: Int[np.ndarray, " word"], seed: int = 0) -> Bool[np.ndarray, " word"]:
    """The words that do not choose. With fewer than three different words, none chooses."""
    place = np.random.default_rng(seed).permutation(unit.max() + 1)
    return (place[unit] % 3 > 0) | (len(place) < 3)


def _mean(sums: Float[np.ndarray, "*draws 2"]) -> Float[np.ndarray, "*draws"]:
    """From the sum and the count; NaN where nothing was counted."""
    total, count = np.moveaxis(sums, -1, 0)
    return np.where(count > 0, total / np.where(count > 0, count, 1), np.nan)
