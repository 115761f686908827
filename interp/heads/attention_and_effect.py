"""Does a head look where it matters? Its attention is compared with the effect of what it sees."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.stats import spearmanr
from torch import Tensor

from interp.causal.metrics import Metric
from interp.causal.patching import patch
from interp.heads.attention import attention
from interp.heads.rollout_and_flow import flow, rollout
from interp.model import HookedModel, activations, has_residual
from interp.weights import key_heads, of_each_head


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
    With grouped queries, a head's own reading of the value that it shares is replaced.

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
    layers, heads = pattern.shape[:2]
    grouped = key_heads(model) < heads
    components = ["resid_pre"] if grouped else ["v", "resid_pre"]
    table = patch(model, changed, word.expand_as(changed), metric, components)
    table["effect"] = (table["patched"] - table["corrupted"]).abs()
    if grouped:
        table = pd.concat([table, _of_shared_values(model, word, changed, metric)])
    effect = table.groupby(places)["effect"].mean()
    looks = {
        (f"L{layer}H{head}", "v", layer, head): pattern[layer, head, at].numpy()
        for layer in range(layers)
        for head in range(heads)
    }
    residual = has_residual(model)
    looks["rollout", "resid_pre", 0, -1] = rollout(pattern, residual)[at].numpy()
    looks["flow", "resid_pre", 0, -1] = flow(pattern, at, residual)
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


@torch.inference_mode()
def _of_shared_values(
    model: HookedModel,
    word: Int[Tensor, " pos"],
    changed: Int[Tensor, "pair pos"],
    metric: Metric,
) -> pd.DataFrame:
    """The effect of each value on one head that reads it, where a group of heads shares it.

    The head's output changes by its attention to the position times the change of the value there.

    Returns:
        One row per layer, head, position and pair: component ("v"), layer, head, position, effect.
    """
    layers, heads = range(model.cfg.n_layers), model.cfg.n_heads
    names = [f"blocks.{layer}.attn.hook_{name}" for layer in layers for name in ("v", "pattern")]
    one = {name: x.to(word.device) for name, x in activations(model, word[None], names).items()}
    other = activations(model, changed, names[::2])
    tokens = word.expand_as(changed)
    before, rows = metric(model(tokens)), list[pd.DataFrame]()
    for layer in layers:
        block = f"blocks.{layer}.attn.hook_"
        change = other[block + "v"].to(word.device) - one[block + "v"]  # [pair, key, group, d_head]
        change = of_each_head(change, heads, dim=2)
        for head, key in product(range(heads), range(len(word))):
            looks = one[block + "pattern"][0, head, :, key]
            added = looks[:, None] * change[:, key, None, head]  # [pair, query, d_head]
            logits = model.run_with_hooks(tokens, fwd_hooks=[(block + "z", _adding(head, added))])
            effect = (metric(logits) - before).abs().cpu().numpy()
            place = {"component": "v", "layer": layer, "head": head, "position": key}
            rows.append(pd.DataFrame({**place, "effect": effect}))
    return pd.concat(rows, ignore_index=True)


def _adding(head: int, x: Float[Tensor, "pair pos d_head"]) -> Callable[..., Tensor]:
    def add(z: Tensor, hook: object) -> Tensor:
        z = z.clone()
        z[:, :, head] += x
        return z

    return add


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
