"""Attention heads: what each looks at, adds to the logit, and is needed for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.model import HookedModel, Metric, ReadableModel, activations

Ablation = Literal["mean", "zero"]
PARTS = ("embed", "attn", "mlp")


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
    """What each part adds to one logit directly, through the norms on its way and W_U.

    The scale of every norm is held at its value in the run, so the parts of a word sum to its
    logit.

    Args:
        positions: where the logit is read, one per word (BOS is position 0).
        token: whose logit.

    Returns:
        One row per part and word: part ("embed", "L0H1", "L0 bias", "L0 mlp", "norm bias", "b_U"),
        word, value.
    """
    layers, heads = range(model.cfg.n_layers), range(model.cfg.n_heads)
    hooks = ["blocks.0.hook_resid_pre"]
    hooks += [f"blocks.{layer}.attn.hook_z" for layer in layers]
    mlps = [f"blocks.{layer}.hook_mlp_out" for layer in layers]
    hooks += [hook for hook in mlps if hook in model.hook_dict]
    ways = {(layer, part): _way(model, layer, part) for layer in layers for part in PARTS}
    norms = dict.fromkeys(name for way in ways.values() for name in way)
    cache = activations(model, tokens, [*hooks, *(f"{name}.hook_scale" for name in norms)])
    rows, positions = torch.arange(len(tokens)), positions.cpu()
    unembed = model.W_U[:, token].detach().cpu()

    def contribution(vectors: Float[Tensor, "batch d_model"], way: Sequence[str]) -> np.ndarray:
        for name in way:
            norm = model.get_submodule(name)
            if getattr(norm, "centres", True):
                vectors = vectors - vectors.mean(dim=-1, keepdim=True)
            vectors = vectors / cache[f"{name}.hook_scale"][rows, positions]
            gamma = getattr(norm, "weight", None)
            vectors = vectors if gamma is None else vectors * gamma.detach().cpu()
        return (vectors @ unembed).numpy()

    stream = cache["blocks.0.hook_resid_pre"][rows, positions]
    parts = {"embed": contribution(stream, ways[0, "embed"])}
    for layer in layers:
        attention = model.blocks[layer].attn
        z = cache[f"blocks.{layer}.attn.hook_z"][rows, positions]  # [batch, head, d_head]
        for head in heads:
            written = z[:, head] @ attention.W_O[head].detach().cpu()
            parts[f"L{layer}H{head}"] = contribution(written, ways[layer, "attn"])
        bias = attention.b_O.detach().cpu().expand(len(tokens), -1)
        if bias.any():
            parts[f"L{layer} bias"] = contribution(bias, ways[layer, "attn"])
        if mlps[layer] in cache:
            written = cache[mlps[layer]][rows, positions]
            parts[f"L{layer} mlp"] = contribution(written, ways[layer, "mlp"])
    betas = np.zeros(len(tokens), dtype=np.float32)
    for name in norms:
        beta = getattr(model.get_submodule(name), "bias", None)
        if beta is not None and beta.any():
            way = next(way for way in ways.values() if name in way)
            after = way[way.index(name) + 1 :]
            betas += contribution(beta.detach().cpu().expand(len(tokens), -1), after)
    if betas.any():
        parts["norm bias"] = betas
    parts["b_U"] = np.full(len(tokens), float(model.b_U[token]))
    return pd.concat(
        [pd.DataFrame({"part": p, "word": rows.numpy(), "value": v}) for p, v in parts.items()],
        ignore_index=True,
    )


def _way(model: ReadableModel, layer: int, part: str) -> list[str]:
    """The norms that a part passes; the final one alone where the model does not say."""
    named = getattr(model, "norms_on_the_way", None)
    return ["ln_final"] if named is None else named(layer, part)


def patterns(model: HookedModel, tokens: Int[Tensor, "one pos"]) -> pd.DataFrame:
    """The attention of every head on one word.

    Returns:
        One row per layer, head, query and key that the query may attend to (under a causal mask
        key <= query): layer, head, query, key, attention.
    """
    layers = range(model.cfg.n_layers)
    hooks = [
        f"blocks.{layer}.attn.hook_{what}"
        for what in ("pattern", "attn_scores")
        for layer in layers
    ]
    cache = activations(model, tokens, hooks)
    pattern, scores = (
        torch.stack([cache[hook][0] for hook in some]).numpy()
        for some in (hooks[: len(layers)], hooks[len(layers) :])
    )
    layer, head, query, key = np.nonzero(scores > -np.inf)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "query": query,
            "key": key,
            "attention": pattern[layer, head, query, key],
        }
    )
