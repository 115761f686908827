"""Which heads does a verdict need, alone and in pairs?

One head's ablation cannot show two heads that stand in for each other (redundancy): without either
nothing is lost. Nor does it show that two heads are needed for one thing (conjunction): without
either all is lost, and without both no more. So pairs are ablated too, and their loss is held
against the sum of the single ones.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.causal.ablation import Ablation, ablate
from interp.causal.metrics import Metric
from interp.comparisons import above
from interp.model import HookedModel

NEEDED = 0.05
"""A head is needed if more than this share of the verdicts is lost without it. A loss above zero
would not do: with enough words any head has one."""


def verdicts_lost(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    mask: Bool[Tensor, "batch pos"],
    labels: Bool[np.ndarray, " batch"],
    metric: Metric,
    method: Ablation,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Whether each verdict is lost without each head, without each pair, and how these differ.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding.
        labels: True for the words in the language.
        metric: one number per word; above 0 it says "in".
        method: the method of the ablation.

    Returns:
        Three tables with a row per word: alone (a column per head), pairs and beyond (a column per
        pair, "L0H0 + L1H2"). Values of the first two: 1 where a right verdict becomes wrong, -1 for
        the reverse, 0 where nothing changes, NaN without a donor. Values of beyond: those of the
        pair minus those of its two heads.
    """
    tables = []
    for together in (1, 2)[: model.cfg.n_layers * model.cfg.n_heads]:  # one head has no pair
        table = ablate(model, tokens, mask, metric, method, together=together)
        truth = labels[table["word"]]
        right = [((table[run] > 0) == truth).astype(float) for run in ("before", "after")]
        lost = (right[0] - right[1]).where(table["after"].notna())
        wide = table.assign(lost=lost).pivot(index="word", columns="part", values="lost")
        tables.append(wide[table["part"].unique()])
    alone, pairs = (*tables, tables[0][[]])[:2]
    beyond = pairs.copy()
    for pair in pairs:
        beyond[pair] -= alone[pair.split(" + ")].sum(axis=1)
    return alone, pairs, beyond


def needed(values: Float[np.ndarray, " word"], unit: Int[np.ndarray, " word"]) -> float:
    """The p-value of the claim that the mean loss is above ``NEEDED``."""
    return above(values, unit, NEEDED)


def beyond_the_sum(values: Float[np.ndarray, " word"], unit: Int[np.ndarray, " word"]) -> float:
    """The two-sided p-value of the claim that the mean is further from 0 than ``NEEDED``."""
    return min(1.0, 2 * min(above(sign * values, unit, NEEDED) for sign in (1, -1)))
