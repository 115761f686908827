"""Does a head look where it matters? Its attention is compared with the effect of what it sees."""

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
    """Compares where the readout position looks with what matters to it.

    To measure the effect of a position through a head, the head's value vector at this position is
    replaced by that of a changed word. The effect is the absolute change of the metric, averaged
    over the changed words. For rollout and flow the embedding at the position is replaced instead.

    Args:
        word: token ids with BOS.
        changed: copies of the word with some symbols replaced. A position that none of them
            replaces cannot show that it matters in the first layer.
        metric: one number per word, read at position ``at``.
        at: the readout: the position whose attention is compared; BOS is 0.

    Returns:
        One row per part and symbol: part ("L0H1", "rollout", "flow"), layer and head (-1 for
        rollout and flow), position (from 1: nothing replaces BOS), attention (0 to 1), effect (>=
        0, in the metric's unit).

    Raises:
        ValueError: the model has no attention.
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
    """Spearman's rank correlation, from -1 to 1; NaN if one side does not vary.

    Each side is rounded to 1e-5 of its largest value. So values that differ only by float32's
    rounding count as ties.
    """
    sides = []
    for values in (x, y):
        largest = np.abs(values).max(initial=0.0)
        rounded = np.rint(values / largest * 1e5) if largest > 0 else np.zeros_like(values)
        if len(np.unique(rounded)) < 2:
            return float("nan")
        sides.append(rounded)
    return float(spearmanr(*sides).statistic)
