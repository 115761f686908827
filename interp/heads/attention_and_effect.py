"""Does a head look where it matters? Attention against the effect of what is looked at."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import spearmanr
from torch import Tensor

from interp.causal.metrics import Metric
from interp.causal.patching import patch
from interp.heads.attention import attention
from interp.heads.rollout_and_flow import flow, rollout
from interp.model import HookedModel


def attention_and_effect(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    changed: Int[Tensor, "pair pos"],
    metric: Metric,
    at: int,
) -> pd.DataFrame:
    """Where the readout looks, beside what matters to it.

    The effect of a position through a head is that of the head's value there: it is replaced by its
    value in a changed word, and the effect is the absolute change of the metric, a mean over the
    changed words. For rollout and flow, the embedding of the position is replaced.

    Args:
        changed: the word with some symbols replaced; a position that none of them replaces cannot
            show that it matters in the first layer.
        metric: of one word; it is read at ``at``, whose attention is looked at.

    Returns:
        One row per part and symbol: part ("L0H1", "rollout", "flow"), layer and head (-1 for the
        two), position (from 1: nothing replaces BOS), attention (0 to 1), effect (>= 0, in the
        metric's unit).
    """
    pattern = attention(model, word[None])[0][:, 0]
    places = ["component", "layer", "head", "position"]
    table = patch(model, changed, word.expand_as(changed), metric, ["v", "resid_pre"])
    table["effect"] = (table["patched"] - table["corrupted"]).abs()
    effect = table.groupby(places)["effect"].mean()
    layers, heads = pattern.shape[:2]
    looks = {
        (f"L{layer}H{head}", "v", layer, head): pattern[layer, head, at].numpy()
        for layer in range(layers)
        for head in range(heads)
    }
    looks["rollout", "resid_pre", 0, -1] = rollout(pattern)[at].numpy()
    looks["flow", "resid_pre", 0, -1] = flow(pattern, at)
    positions = np.arange(1, len(word))
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "part": part,
                    "layer": -1 if head < 0 else layer,
                    "head": head,
                    "position": positions,
                    "attention": row[1:],
                    "effect": effect[component, layer, head][positions].to_numpy(),
                }
            )
            for (part, component, layer, head), row in looks.items()
        ],
        ignore_index=True,
    )


def rank_correlation(x: Float[np.ndarray, " position"], y: Float[np.ndarray, " position"]) -> float:
    """Spearman's rank correlation; NaN where one side does not vary.

    What differs by less than 1e-5 of the largest value, float32's rounding, is a tie.
    """
    sides = []
    for values in (x, y):
        largest = np.abs(values).max(initial=0.0)
        rounded = np.rint(values / largest * 1e5) if largest > 0 else np.zeros_like(values)
        if len(np.unique(rounded)) < 2:
            return float("nan")
        sides.append(rounded)
    return float(spearmanr(*sides).statistic)
