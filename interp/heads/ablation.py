"""Attention heads: what each looks at, adds to the logit, and is needed for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.model import HookedModel, ReadableModel, activations

Ablation = Literal["mean", "zero", "resample"]
PARTS = ("embed", "attn", "mlp")


@runtime_checkable
class CircuitModel(ReadableModel, Protocol):
    """A readable model that begins with an embedding."""

    @property
    def W_E(self) -> Tensor: ...


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
    """Takes one head away at a time, at all positions: its output z becomes another.

    "zero" takes nothing for it; "mean" its mean over the batch; "resample" its z at the same
    positions in another word of the batch (Chan et al. 2022), which, unlike the two others, the
    model may meet. Several heads share one forward pass.

    Args:
        mask: True on BOS and the word, False on padding, which no mean may see.
        seed: of the other words; a word has the same one for all heads (``donors``).
        rows: the most words in one forward pass, which bounds the memory.

    Returns:
        One row per layer, head and word: layer, head, word, before, after (the metric). After a
        resample it is NaN for a word without donor.
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
    """For each word another one of the batch, drawn among the different words at least as long.

    A shorter one has nothing to give at the last positions. -1 where there is none.
    """
    lengths = mask.sum(dim=1).cpu().numpy()
    _, spelling = np.unique(tokens.where(mask, -1).cpu().numpy(), axis=0, return_inverse=True)
    fits = (lengths >= lengths[:, None]) & (spelling != spelling[:, None])
    drawn = np.where(fits, np.random.default_rng(seed).random(fits.shape), -1.0)
    return np.where(fits.any(axis=1), drawn.argmax(axis=1), -1)


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
            scaled = vectors / cache[f"{name}.hook_scale"][rows, positions]
            vectors = _linear(model.get_submodule(name), scaled)
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

    A head's share of a position is its attention from ``at`` times the value there, through a head
    norm, W_O and the norms on the way, whose scale is held; a sequence's own position also adds its
    embedding. MLPs mix positions that earlier layers brought together and belong to none: their
    part, and the biases', are left out, so the values do not sum to the logit.
    """
    layers = range(model.cfg.n_layers)
    blocks = [f"blocks.{layer}.attn.hook_" for layer in layers]
    ways = [_way(model, layer, "attn") for layer in layers]
    stream_way = _way(model, 0, "embed")
    norms = dict.fromkeys(name for way in (*ways, stream_way) for name in way)
    hooks = ["blocks.0.hook_resid_pre", *(f"{name}.hook_scale" for name in norms)]
    hooks += [block + name for block in blocks for name in ("v", "pattern")]
    scales = [f"blocks.{layer}.attn.norm_z.hook_scale" for layer in layers]  # of head norms
    cache = activations(model, word[None], [*hooks, *(s for s in scales if s in model.hook_dict)])
    unembed = model.W_U[:, token].detach().cpu()

    def contribution(vectors: Float[Tensor, "*any d_model"], way: Sequence[str]) -> Tensor:
        for name in way:
            scale = cache[f"{name}.hook_scale"][0, at]
            vectors = _linear(model.get_submodule(name), vectors / scale)
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


def _linear(norm: Any, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """What of a norm is linear: its centring and its gain, without its scale and bias."""
    if getattr(norm, "centres", True):
        x = x - x.mean(dim=-1, keepdim=True)
    gamma = getattr(norm, "weight", None)
    return x if gamma is None else x * gamma.detach().to(x.device)


def _way(model: ReadableModel, layer: int, part: str) -> list[str]:
    """The norms that a part passes; the final one alone where the model does not say."""
    named = getattr(model, "norms_on_the_way", None)
    return ["ln_final"] if named is None else named(layer, part)


@torch.no_grad()
def qk_circuit(
    model: CircuitModel, layer: int, head: int
) -> Float[Tensor, "d_vocab_query d_vocab_key"]:
    """The score that a query token gives a key token by their embeddings alone.

    The head reads each embedding as if the stream held nothing else, through its norm, with biases
    and scale: norm(e_q) W_Q (norm(e_k) W_K)^T / sqrt(d_head) (Elhage et al. 2021). In the first
    layer these are the model's own scores, but for what positions add.
    """
    attention, x = model.blocks[layer].attn, _read(model, layer)
    q = x @ attention.W_Q[head] + attention.b_Q[head]
    k = x @ attention.W_K[head] + attention.b_K[head]
    w = getattr(attention, "W_score", None)
    if w is not None:
        return ((q[:, None] + k).tanh() @ w[head]).cpu()
    plain = getattr(attention, "scores", None) == "dot"
    return (q @ k.T * (1.0 if plain else q.shape[-1] ** -0.5)).cpu()


@torch.no_grad()
def ov_circuit(
    model: CircuitModel, layer: int, head: int
) -> Float[Tensor, "d_vocab_source d_vocab_out"]:
    """What attending fully to a source token adds to each logit directly, by its embedding alone.

    The head reads the embedding as in ``qk_circuit``: (norm(e) W_V + b_V) W_O W_U (Elhage et al.
    2021); a counter reads the steps of these values. Of the norms on the way to the logits the
    centring and gain count; their scale, and that of a head norm, depends on the rest of the word
    and is left out, so values compare within a head, not between heads with a norm of their own or
    between layers.
    """
    attention = model.blocks[layer].attn
    v = torch.einsum("td,hdk->thk", _read(model, layer), attention.W_V) + attention.b_V
    steps = getattr(attention, "values", None)
    written = (v if steps is None else steps(v))[:, head] @ attention.W_O[head]
    for name in _way(model, layer, "attn"):
        written = _linear(model.get_submodule(name), written)
    return (written @ model.W_U).cpu()


def _read(model: CircuitModel, layer: int) -> Float[Tensor, "d_vocab d_model"]:
    """What a layer's attention reads where the stream holds one token's embedding alone."""
    x, on_the_stream = model.W_E[None], _way(model, layer, "embed")
    for name in on_the_stream:  # those of post-norm blocks before this one
        if name not in _way(model, layer, "attn"):
            x = model.get_submodule(name)(x)
    own = f"blocks.{layer}.ln1"
    return (x if own in on_the_stream else model.get_submodule(own)(x))[0]
