"""Small networks as a ``HookedTransformer`` of TransformerLens 1 to 3 was saved, and their logits.

TransformerLens 4 has none, so its formulas stand here, written from its code and without its code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import gelu, relu, silu

NAMES = "<bos> <eos> a b"
CONTEXT = 13
SIZES = {"d_model": 16, "d_head": 8, "n_heads": 2, "n_layers": 2, "n_ctx": CONTEXT, "d_vocab": 4}
WRITTEN = {
    "act_fn": "relu",
    "eps": 1e-5,
    "attn_scale": 8**0.5,
    "use_attn_scale": True,
    "d_mlp": 24,
    "attn_only": False,
    "normalization_type": "LN",
    "positional_embedding_type": "standard",
    "rotary_dim": None,
    "rotary_base": 10000,
    "rotary_adjacent_pairs": False,
    "final_rms": False,
    "init_mode": "gpt2",
    "initializer_range": 0.2,
    "d_vocab_out": 4,
    "seed": 7,
    "n_params": 3584,
    "tokenizer_name": "gpt2",
    "default_prepend_bos": True,
    "attention_dir": "causal",
    "parallel_attn_mlp": False,
    "device": "cuda",
    "dtype": "torch.float32",
    "window_size": None,
    "NTK_original_ctx_len": 8192,
    "use_NTK_by_parts_rope": False,
}
"""What ``cfg.to_dict()`` writes, and more than a few fields of it."""
SHAPES: Mapping[str, dict[str, Any]] = {
    "norm and mlp": {"act_fn": "gelu"},
    "attention only": {"attn_only": True, "normalization_type": None, "act_fn": None},
    "rotary": {
        "positional_embedding_type": "rotary",
        "normalization_type": "RMS",
        "rotary_dim": 6,
    },
    "rotary neighbours": {
        "positional_embedding_type": "rotary",
        "normalization_type": "LNPre",
        "rotary_dim": 8,
        "rotary_adjacent_pairs": True,
        "n_key_value_heads": 1,
    },
    "gated": {"gated_mlp": True, "act_fn": "silu"},
}


def config_of(shape: str) -> dict[str, Any]:
    return SIZES | WRITTEN | SHAPES[shape]


def weights_of(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """A random ``state_dict()``, with its buffers. No bias is 0 but those of gated MLPs, as Llama's
    are, and no scale is 1."""
    generator = torch.Generator().manual_seed(0)
    c = config
    d, head, heads, norm = c["d_model"], c["d_head"], c["n_heads"], c["normalization_type"]
    groups = c.get("n_key_value_heads")
    shapes: dict[str, tuple[int, ...]] = {
        "embed.W_E": (c["d_vocab"], d),
        "unembed.W_U": (d, c["d_vocab"]),
        "unembed.b_U": (c["d_vocab"],),
    }
    if c["positional_embedding_type"] == "standard":
        shapes["pos_embed.W_pos"] = (c["n_ctx"], d)
    norms = ["ln_final"]
    for block in (f"blocks.{layer}" for layer in range(c["n_layers"])):
        for letter, count in (("Q", heads), ("K", groups or heads), ("V", groups or heads)):
            under = "_" if groups and letter != "Q" else ""
            shapes[f"{block}.attn.{under}W_{letter}"] = (count, d, head)
            shapes[f"{block}.attn.{under}b_{letter}"] = (count, head)
        shapes |= {f"{block}.attn.W_O": (heads, head, d), f"{block}.attn.b_O": (d,)}
        norms.append(f"{block}.ln1")
        if not c["attn_only"]:
            norms.append(f"{block}.ln2")
            shapes |= {f"{block}.mlp.W_in": (d, c["d_mlp"]), f"{block}.mlp.b_in": (c["d_mlp"],)}
            shapes |= {f"{block}.mlp.W_out": (c["d_mlp"], d), f"{block}.mlp.b_out": (d,)}
    for name in norms if norm in ("LN", "RMS") else ():
        shapes[f"{name}.w"] = (d,)
        if norm == "LN":
            shapes[f"{name}.b"] = (d,)
    weights = {
        name: torch.randn(shape, generator=generator) * (0.5 if len(shape) > 1 else 0.2)
        + float(name.endswith(".w"))
        for name, shape in shapes.items()
    }
    for block in (f"blocks.{layer}" for layer in range(c["n_layers"])):
        if c.get("gated_mlp"):
            weights[f"{block}.mlp.W_gate"] = weights[f"{block}.mlp.W_in"].flip(0)
            for letter in ("b_in", "b_out"):
                weights[f"{block}.mlp.{letter}"].zero_()
        weights[f"{block}.attn.mask"] = torch.ones(c["n_ctx"], c["n_ctx"], dtype=torch.bool).tril()
        weights[f"{block}.attn.IGNORE"] = torch.tensor(-torch.inf)
        if c["positional_embedding_type"] == "rotary":
            weights[f"{block}.attn.rotary_sin"] = torch.zeros(c["n_ctx"], c["rotary_dim"])
            weights[f"{block}.attn.rotary_cos"] = torch.zeros(c["n_ctx"], c["rotary_dim"])
    return weights


def logits_of(config: Mapping[str, Any], weights: Mapping[str, Tensor], tokens: Tensor) -> Tensor:
    """What the ``HookedTransformer`` says; tokens [batch, pos] to logits [batch, pos, d_vocab]."""
    rotary = config["positional_embedding_type"] == "rotary"
    places = tokens.shape[1]
    x = weights["embed.W_E"][tokens]
    if not rotary:
        x = x + weights["pos_embed.W_pos"][:places]
    for block in (f"blocks.{layer}" for layer in range(config["n_layers"])):
        part = {name.split(".")[-1].lstrip("_"): w for name, w in weights.items()
                if name.startswith(f"{block}.attn.")}  # fmt: skip
        normed = _normed(config, weights, f"{block}.ln1", x)
        q, k, v = (
            torch.einsum("bpd,hde->bphe", normed, part[f"W_{letter}"]) + part[f"b_{letter}"]
            for letter in "QKV"
        )
        if rotary:
            q, k = (_rotated(config, each) for each in (q, k))
        k, v = (each.repeat_interleave(q.shape[2] // each.shape[2], dim=2) for each in (k, v))
        scores = torch.einsum("bqhe,bkhe->bhqk", q, k) / config["attn_scale"]
        later = torch.ones(places, places, dtype=torch.bool).triu(1)
        pattern = scores.masked_fill(later, -torch.inf).softmax(dim=-1)
        z = torch.einsum("bhqk,bkhe->bqhe", pattern, v)
        x = x + torch.einsum("bqhe,hed->bqd", z, part["W_O"]) + part["b_O"]
        if not config["attn_only"]:
            act = {"relu": relu, "gelu": gelu, "silu": silu}[config["act_fn"]]
            mlp = {name.split(".")[-1]: w for name, w in weights.items()
                   if name.startswith(f"{block}.mlp.")}  # fmt: skip
            normed = _normed(config, weights, f"{block}.ln2", x)
            if "W_gate" in mlp:  # its bias comes after the product
                inside = act(normed @ mlp["W_gate"]) * (normed @ mlp["W_in"]) + mlp["b_in"]
            else:
                inside = act(normed @ mlp["W_in"] + mlp["b_in"])
            x = x + inside @ mlp["W_out"] + mlp["b_out"]
    x = _normed(config, weights, "ln_final", x)
    return x @ weights["unembed.W_U"] + weights["unembed.b_U"]


def _normed(
    config: Mapping[str, Any], weights: Mapping[str, Tensor], name: str, x: Tensor
) -> Tensor:
    kind = config["normalization_type"]
    if kind is None:
        return x
    if kind.startswith("LN"):
        x = x - x.mean(dim=-1, keepdim=True)
    x = x / (x.pow(2).mean(dim=-1, keepdim=True) + config["eps"]).sqrt()
    return x * weights.get(f"{name}.w", 1) + weights.get(f"{name}.b", 0)


def _rotated(config: Mapping[str, Any], x: Tensor) -> Tensor:
    """Turns the first dimensions of each head, x [batch, pos, head, d_head], by its position."""
    turned = config["rotary_dim"]
    half = turned // 2
    pairs = [(2 * i, 2 * i + 1) for i in range(half)]
    if not config["rotary_adjacent_pairs"]:
        pairs = [(i, i + half) for i in range(half)]
    out = x.clone()
    for i, (first, second) in enumerate(pairs):
        angle = torch.arange(x.shape[1]) / config["rotary_base"] ** (i / half)
        sin, cos = (f(angle)[None, :, None] for f in (torch.sin, torch.cos))
        out[..., first] = x[..., first] * cos - x[..., second] * sin
        out[..., second] = x[..., second] * cos + x[..., first] * sin
    return out


def saved(
    config: Mapping[str, Any], weights: Mapping[str, Tensor], folder: Path, name: str = "model.pt"
) -> Path:
    """The folder with both."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if name.endswith(".safetensors"):
        save_file(dict(weights), folder / name)
    else:
        torch.save(dict(weights), folder / name)
    return folder
