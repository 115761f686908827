"""Reliance: the lean of a verdict on a symbol that decides nothing.

Some symbols never change whether a word is in the language. A network that learned the rule does
not mind them. One that leans on a shortcut does. All copies of such a symbol are taken out of a
word, another that decides nothing in their place. Then one copy is put in, for a symbol that the
word still has elsewhere: else its loss would count too. What the answer changes is due to this
symbol being there (an experiment, not a correlation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from interp.comparisons import above, corrected
from interp.statistics import bootstrap_mean

LEANS = 0.05
"""A verdict leans on a symbol that changes the probability by more than this, on average."""


def reliance(
    score: Callable[[Int[np.ndarray, "word time"]], Float[np.ndarray, " word"]],
    ids: Int[np.ndarray, "word time"],
    symbols: Sequence[int],
    seed: int = 0,
) -> pd.DataFrame:
    """The change that the presence of each symbol makes, against its absence.

    Args:
        score: the model's probability of "in" for each row of ids. Its rows are the words in their
            order, with other symbols.
        ids: different words.
        symbols: the ids of at least two symbols that decide nothing.
        seed: seed of the places, and of what stands in for a symbol that is taken out.

    Returns:
        One row per symbol: symbol (its id), effect (the mean change of the score; positive speaks
        for "in"), low and high (95% bootstrap over words), corrected (the p-value of the claim that
        the effect is further than ``LEANS`` from 0: Student's test over words, Holm's correction
        for all symbols), words (that have a place for it). A symbol without a word is NaN.

    Raises:
        ValueError: there are fewer than two symbols.
    """
    if len(symbols) < 2:
        raise ValueError("others stand in for a symbol: give at least two symbols")
    rng, unit, rows = np.random.default_rng(seed), np.arange(len(ids)), []
    for symbol in symbols:
        instead = rng.choice([other for other in symbols if other != symbol], (len(ids), 1))
        without = np.where(ids == symbol, instead, ids)
        copies = (without[:, :, None] == without[:, None, :]).sum(axis=2)
        free = np.isin(without, symbols) & (copies > 1)
        there = without.copy()
        there[unit, np.where(free, rng.random(ids.shape), -1.0).argmax(axis=1)] = symbol
        change = np.where(free.any(axis=1), score(there) - score(without), np.nan)
        p = np.minimum(1, 2 * min(above(sign * change, unit, LEANS) for sign in (1, -1)))
        sample = change[~np.isnan(change)]
        ends = map(float, bootstrap_mean(sample)) if len(sample) else [np.nan] * 3
        rows.append((symbol, *ends, p, len(sample)))
    columns = ["symbol", "effect", "low", "high", "corrected", "words"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(corrected=corrected(table["corrected"].to_numpy(dtype=np.float64)))
