"""Direct logit attribution: what each part, or each symbol, adds to a logit by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.heads.norms import norms_to_logits, without_scale
from interp.model import ReadableModel, activations, require

PARTS = ("embed", "attn", "mlp")


@torch.no_grad()
def direct_logit_attribution(
    model: ReadableModel,
    tokens: Int[Tensor, "batch pos"],
    positions: Int[Tensor, " batch"],
    token: int,
) -> pd.DataFrame:
    """What each part adds to one logit directly, through the norms on its way and W_U.

    The scale of every norm is held at its value in the run. So the parts of a word sum to its logit
    (Elhage et al. 2021).

    Args:
        tokens: token ids with BOS.
        positions: where the logit is read, one position per word (BOS is 0).
        token: the id of the token whose logit it is.

    Returns:
        One row per part and word: part ("embed", "L0H1", "L0 bias", "L0 mlp", "norm bias", "b_U"),
        word, value (in logits; positive raises the logit).

    Raises:
        ValueError: the model is no ``ReadableModel``, or it lacks a hook.
    """
    require(model, ReadableModel)
    layers, heads = range(model.cfg.n_layers), range(model.cfg.n_heads)
    hooks = ["blocks.0.hook_resid_pre"]
    hooks += [f"blocks.{layer}.attn.hook_z" for layer in layers]
    mlps = [f"blocks.{layer}.hook_mlp_out" for layer in layers]
    hooks += [hook for hook in mlps if hook in model.hook_dict]
    ways = {
        (layer, part): norms_to_logits(model, layer, part) for layer in layers for part in PARTS
    }
    norms = dict.fromkeys(name for way in ways.values() for name in way)
    cache = activations(model, tokens, [*hooks, *(f"{name}.hook_scale" for name in norms)])
    rows, positions = torch.arange(len(tokens)), positions.cpu()
    unembed = model.W_U[:, token].detach().cpu()

    def contribution(vectors: Float[Tensor, "batch d_model"], way: Sequence[str]) -> np.ndarray:
        for name in way:
            scaled = vectors / cache[f"{name}.hook_scale"][rows, positions]
            vectors = without_scale(model.get_submodule(name), scaled)
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


@torch.no_grad()
def direct_by_position(
    model: ReadableModel, word: Int[Tensor, " pos"], at: int, token: int
) -> Float[np.ndarray, " pos"]:
    """What the symbol at each position adds to one logit directly, through all heads.

    Through one head a position adds the attention that ``at`` pays to it times the value there,
    mapped by W_O and the norms on the way (a head norm too); their scales are held at their values
    in the run. Position ``at`` also adds its own embedding. MLPs mix positions that earlier layers
    brought together, so that their part belongs to no position. It is left out, and so are the
    biases: the values do not sum to the logit.

    Args:
        word: token ids with BOS.
        at: where the logit is read; BOS is 0.
        token: the id of the token whose logit it is.

    Returns:
        One value per position, in logits; positive raises the logit.

    Raises:
        ValueError: the model is no ``ReadableModel``, or it lacks a hook.
    """
    require(model, ReadableModel)
    layers = range(model.cfg.n_layers)
    blocks = [f"blocks.{layer}.attn.hook_" for layer in layers]
    ways = [norms_to_logits(model, layer, "attn") for layer in layers]
    stream_way = norms_to_logits(model, 0, "embed")
    norms = dict.fromkeys(name for way in (*ways, stream_way) for name in way)
    hooks = ["blocks.0.hook_resid_pre", *(f"{name}.hook_scale" for name in norms)]
    hooks += [block + name for block in blocks for name in ("v", "pattern")]
    scales = [f"blocks.{layer}.attn.norm_z.hook_scale" for layer in layers]  # of head norms
    cache = activations(model, word[None], [*hooks, *(s for s in scales if s in model.hook_dict)])
    unembed = model.W_U[:, token].detach().cpu()

    def contribution(vectors: Float[Tensor, "*any d_model"], way: Sequence[str]) -> Tensor:
        for name in way:
            scale = cache[f"{name}.hook_scale"][0, at]
            vectors = without_scale(model.get_submodule(name), vectors / scale)
        return vectors @ unembed

    total = torch.zeros(len(word))
    total[at] = contribution(cache["blocks.0.hook_resid_pre"][0, at], stream_way)
    for layer, block, way, scale in zip(layers, blocks, ways, scales, strict=True):
        weighted = cache[block + "pattern"][0, :, at].T[..., None] * cache[block + "v"][0]
        if scale in cache:
            weighted = weighted / cache[scale][0, at]
        W_O = model.blocks[layer].attn.W_O.detach().cpu()
        total += contribution(torch.einsum("khd,hdm->km", weighted, W_O), way)
    return total.double().numpy()
