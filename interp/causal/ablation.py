"""Ablation: what is each head needed for? It is taken away, and the metric is read again."""

from __future__ import annotations

from collections.abc import Callable
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
) -> pd.DataFrame:
    """Takes one head away at a time, at all positions, by replacing its output z.

    "zero" puts 0 in its place. "mean" puts the head's mean z over all positions of all words.
    "resample" puts its z at the same positions of another word of the batch (Chan et al. 2022);
    unlike the other two, this is an output that the model may meet. Several heads share one forward
    pass.

    Args:
        tokens: token ids with BOS.
        mask: True on BOS and the word, False on padding, which is left out of the mean.
        metric: one number per word.
        method: "mean", "zero" or "resample".
        seed: of the other words; a word has the same one for all heads (``donors``).
        rows: the most words in one forward pass; fewer need less memory.

    Returns:
        One row per layer, head and word: layer, head, word, before and after (the metric, in its
        unit). With "resample", after is NaN for a word without a donor.

    Raises:
        ValueError: the model has no attention.
    """
    before = metric(model(tokens)).cpu().numpy()
    hooks = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    outputs = activations(model, tokens, hooks)
    donor = donors(tokens, mask, seed) if method == "resample" else np.zeros(len(tokens), int)
    tables = []
    for layer, hook in enumerate(hooks):
        z = outputs[hook]
        if method == "resample":
            other = z[torch.as_tensor(donor)]
        else:
            other = z[mask.cpu()].mean(dim=0) * (method == "mean")
            other = other.expand_as(z)
        for heads in torch.arange(model.cfg.n_heads).split(max(1, rows // len(tokens))):
            hooked = [(hook, _instead(heads, other.to(tokens.device)))]
            logits = model.run_with_hooks(tokens.repeat(len(heads), 1), fwd_hooks=hooked)
            for head, copy in zip(heads.tolist(), logits.chunk(len(heads)), strict=True):
                after = np.where(donor >= 0, metric(copy).cpu().numpy(), np.nan)
                columns = {"layer": layer, "head": head, "word": np.arange(len(tokens))}
                tables.append(pd.DataFrame({**columns, "before": before, "after": after}))
    return pd.concat(tables, ignore_index=True)


def _instead(
    heads: Int[Tensor, " copy"], other: Float[Tensor, "batch pos head d_head"]
) -> Callable[..., Tensor]:
    """A hook on copies of the batch: in each of them one head's output is another."""

    def replace(z: Tensor, hook: object) -> Tensor:
        copies = z.unflatten(0, (len(heads), -1)).clone()
        copies[torch.arange(len(heads)), :, :, heads] = other[:, :, heads].movedim(2, 0)
        return copies.flatten(0, 1)

    return replace


def donors(
    tokens: Int[Tensor, "batch pos"], mask: Bool[Tensor, "batch pos"], seed: int
) -> Int[np.ndarray, " batch"]:
    """For each word the row of another word, drawn from the different words at least as long.

    A shorter word would have nothing to give at the last positions.

    Args:
        mask: True on BOS and the word, False on padding.
        seed: of the draw.

    Returns:
        Rows of the batch; -1 for a word without such a donor.
    """
    lengths = mask.sum(dim=1).cpu().numpy()
    _, spelling = np.unique(tokens.where(mask, -1).cpu().numpy(), axis=0, return_inverse=True)
    fits = (lengths >= lengths[:, None]) & (spelling != spelling[:, None])
    drawn = np.where(fits, np.random.default_rng(seed).random(fits.shape), -1.0)
    return np.where(fits.any(axis=1), drawn.argmax(axis=1), -1)
