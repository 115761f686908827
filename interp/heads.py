"""Attention heads: what each looks at, adds to the logit, and is needed for."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.model import HookedModel, Metric, ReadableModel, activations

Ablation = Literal["mean", "zero"]


@torch.no_grad()
def ablate(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    mask: Bool[Tensor, "batch pos"],
    metric: Metric,
    method: Ablation,
) -> pd.DataFrame:
    """Takes one head away at a time: its output z becomes zero, or its mean over the batch.

    Args:
        mask: True on BOS and the word, False on padding, which no mean may see.

    Returns:
        One row per layer, head and word: layer, head, word, before, after (the metric).
    """
    before = metric(model(tokens)).cpu().numpy()
    hooks = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    outputs = activations(model, tokens, hooks)
    tables = []
    for layer, hook in enumerate(hooks):
        mean = outputs[hook][mask.cpu()].mean(dim=0).to(tokens.device)  # [head, d_head]
        for head in range(model.cfg.n_heads):

            def remove(z: Tensor, hook: object, head: int = head, mean: Tensor = mean) -> Tensor:
                z = z.clone()
                z[:, :, head] = mean[head] if method == "mean" else 0.0
                return z

            after = metric(model.run_with_hooks(tokens, fwd_hooks=[(hook, remove)])).cpu().numpy()
            columns = {"layer": layer, "head": head, "word": np.arange(len(tokens))}
            tables.append(pd.DataFrame({**columns, "before": before, "after": after}))
    return pd.concat(tables, ignore_index=True)


@torch.no_grad()
def direct_logit_attribution(
    model: ReadableModel,
    tokens: Int[Tensor, "batch pos"],
    positions: Int[Tensor, " batch"],
    token: int,
) -> pd.DataFrame:
    """What each part adds to one logit directly, through the final norm and W_U.

    The norm's scale is held at its value in the run, so the parts of a word sum to its logit.
    Needs a final norm without gamma and beta (or with them folded into W_U), as our models have it.

    Args:
        positions: where the logit is read, one per word (BOS is position 0).
        token: whose logit.

    Returns:
        One row per part and word: part ("embed", "L0H1", "L0 bias", "L0 mlp", "b_U"), word, value.
    """
    layers, heads = range(model.cfg.n_layers), range(model.cfg.n_heads)
    hooks = ["ln_final.hook_scale", "blocks.0.hook_resid_pre"]
    hooks += [f"blocks.{layer}.attn.hook_z" for layer in layers]
    hooks += [f"blocks.{layer}.hook_mlp_out" for layer in layers]
    cache = activations(model, tokens, hooks)
    rows, positions = torch.arange(len(tokens)), positions.cpu()
    unembed = model.W_U[:, token].detach().cpu()
    # Centring is linear, so it can be moved from the stream to the direction.
    direction = unembed - unembed.mean()

    def contribution(vectors: Float[Tensor, "batch d_model"]) -> np.ndarray:
        return ((vectors @ direction) / cache["ln_final.hook_scale"][rows, positions, 0]).numpy()

    parts = {"embed": contribution(cache["blocks.0.hook_resid_pre"][rows, positions])}
    for layer in layers:
        attention = model.blocks[layer].attn
        z = cache[f"blocks.{layer}.attn.hook_z"][rows, positions]  # [batch, head, d_head]
        for head in heads:
            parts[f"L{layer}H{head}"] = contribution(
                z[:, head] @ attention.W_O[head].detach().cpu()
            )
        bias = attention.b_O.detach().cpu()
        if bias.any():
            parts[f"L{layer} bias"] = contribution(bias.expand(len(tokens), -1))
        parts[f"L{layer} mlp"] = contribution(
            cache[f"blocks.{layer}.hook_mlp_out"][rows, positions]
        )
    parts["b_U"] = np.full(len(tokens), float(model.b_U[token]))
    return pd.concat(
        [pd.DataFrame({"part": p, "word": rows.numpy(), "value": v}) for p, v in parts.items()],
        ignore_index=True,
    )


def patterns(model: HookedModel, tokens: Int[Tensor, "one pos"]) -> pd.DataFrame:
    """The attention of every head on one word.

    Returns:
        One row per layer, head, query and key (key <= query): layer, head, query, key, attention.
    """
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.cfg.n_layers)]
    cache = activations(model, tokens, hooks)
    pattern = torch.stack([cache[hook][0] for hook in hooks]).numpy()
    layer, head, query, key = np.nonzero(np.broadcast_to(np.tri(pattern.shape[-1]), pattern.shape))
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "key": key,
            "attention": pattern[layer, head, query, key],
        }
    )
