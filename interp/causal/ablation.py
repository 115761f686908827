"""Ablation: what is each head needed for, and each pair? They are taken away, and the metric is
read again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.model import HookedModel, activations

Ablation = Literal["mean", "zero", "resample"]


@torch.no_grad()
def ablate(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    mask: Bool[Tensor, "batch pos"],
    metric: Metric,
    method: Ablation,
    seed: int = 0,
    rows: int = 2048,
    together: int = 1,
) -> pd.DataFrame:
    """Takes heads away, at all positions, by replacing their outputs z.

    "zero" puts 0 in its place. "mean" puts the head's mean z over all positions of all words.
    "resample" puts its z at the same positions of another word of the batch (Chan et al. 2022);
    unlike the other two, this is an output that the model may meet. Several heads share one forward
    pass.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding, which is left out of the mean.
        metric: one number per word.
        method: "mean", "zero" or "resample".
        seed: seed of the draw of other words; a word has the same one for all heads (``donors``).
        rows: the most words in one forward pass; fewer need less memory.
        together: number of heads taken away at a time: 1 for each head, 2 for all pairs.

    Returns:
        One row per set of heads and word: part ("L0H1", "L0H1 + L1H0"), layer and head (-1 for more
        than one), word, before and after (the metric, in its unit). With "resample", after is NaN
        for a word without a donor.

    Raises:
        ValueError: the model has no attention.
    """
    before = metric(model(tokens)).cpu().numpy()
    hooks = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    outputs = activations(model, tokens, hooks)
    donor = donors(tokens, mask, seed) if method == "resample" else np.zeros(len(tokens), int)
    others = list[Tensor]()
    for hook in hooks:
        z = outputs[hook]
        if method == "resample":
            other = z[torch.as_tensor(donor)]
        else:
            other = (z[mask.cpu()].mean(dim=0) * (method == "mean")).expand_as(z)
        others.append(other.to(tokens.device))
    heads = [(layer, head) for layer in range(len(hooks)) for head in range(model.cfg.n_heads)]
    sets, tables = list(combinations(heads, together)), list[pd.DataFrame]()
    at_once = max(1, rows // len(tokens))
    for start in range(0, len(sets), at_once):
        some = sets[start : start + at_once]
        hooked = [
            (hook, _instead(away, others[layer]))
            for layer, hook in enumerate(hooks)
            if (away := _away(some, layer, model.cfg.n_heads).to(tokens.device)).any()
        ]
        logits = model.run_with_hooks(tokens.repeat(len(some), 1), fwd_hooks=hooked)
        for group, copy in zip(some, logits.chunk(len(some)), strict=True):
            after = np.where(donor >= 0, metric(copy).cpu().numpy(), np.nan)
            layer, head = group[0] if together == 1 else (-1, -1)
            part = " + ".join(f"L{layer}H{head}" for layer, head in group)
            about = {"part": part, "layer": layer, "head": head, "word": np.arange(len(tokens))}
            tables.append(pd.DataFrame({**about, "before": before, "after": after}))
    return pd.concat(tables, ignore_index=True)


def _away(
    sets: Sequence[tuple[tuple[int, int], ...]], layer: int, heads: int
) -> Bool[Tensor, "copy head"]:
    """Which heads of a layer are taken away in each copy of the batch."""
    away = torch.zeros(len(sets), heads, dtype=torch.bool)
    for copy, group in enumerate(sets):
        away[copy, [head for at, head in group if at == layer]] = True
    return away


def _instead(
    away: Bool[Tensor, "copy head"], other: Float[Tensor, "batch pos head d_head"]
) -> Callable[..., Tensor]:
    """A hook on copies of the batch: in each of them some heads' outputs are others."""

    def replace(z: Tensor, hook: object) -> Tensor:
        copies = z.unflatten(0, (len(away), -1))
        return copies.where(~away[:, None, None, :, None], other).flatten(0, 1)

    return replace


def donors(
    tokens: Int[Tensor, "batch pos"], mask: Bool[Tensor, "batch pos"], seed: int
) -> Int[np.ndarray, " batch"]:
    """For each word the row of another word, drawn from the different words at least as long.

    A shorter word would have nothing to give at the last positions.

    Args:
        mask: True on BOS and the word, False on padding.
        seed: seed of the draw.

    Returns:
        Rows of the batch; -1 for a word without such a donor.
    """
    lengths = mask.sum(dim=1).cpu().numpy()
    _, spelling = np.unique(tokens.where(mask, -1).cpu().numpy(), axis=0, return_inverse=True)
    fits = (lengths >= lengths[:, None]) & (spelling != spelling[:, None])
    drawn = np.where(fits, np.random.default_rng(seed).random(fits.shape), -1.0)
    return np.where(fits.any(axis=1), drawn.argmax(axis=1), -1)
