"""The hooks: their names in one table, and does anybody listen?"""

from __future__ import annotations

from dataclasses import dataclass

from transformer_lens.hook_points import HookPoint

from models.config import ABSOLUTE, ModelConfig


def listened(*points: HookPoint) -> bool:
    """Is any hook, forward or backward, set on any of the points? One that nobody uses is free.

    PyTorch's own tables are read, so that hooks set past TransformerLens count too.
    """
    return any(
        p._forward_hooks or p._forward_pre_hooks or p._backward_hooks or p._backward_pre_hooks
        for p in points
    )


@dataclass(frozen=True)
class HookRow:
    """One line of the table of hook names.

    Attributes:
        name: as TransformerLens calls it; {layer} stands for every block.
        shape: the activation's, by axis.
        meaning: what it is.
    """

    name: str
    shape: tuple[str, ...]
    meaning: str

    def names(self, n_layers: int) -> list[str]:
        """The hooks of this line, written out."""
        if "{layer}" not in self.name:
            return [self.name]
        return [self.name.format(layer=layer) for layer in range(n_layers)]


STREAM = ("batch", "pos", "d_model")
HEADS = ("batch", "pos", "head", "d_head")
PAIRS = ("batch", "head", "query", "key")
HIDDEN = ("batch", "pos", "d_mlp")


def hook_table(config: ModelConfig) -> list[HookRow]:
    """Every hook of a model, in the order of computation: the one place that documents them."""
    rows = {
        "transformer": _transformer,
        "lstm": _recurrent,
        "gru": _recurrent,
        "cnn": _convolution,
        "ngram": _ngram,
    }
    return rows[config.architecture](config)


def _norm(name: str, shape: tuple[str, ...] = STREAM) -> list[HookRow]:
    return [
        HookRow(f"{name}.hook_scale", (*shape[:-1], "1"), "what the norm divides by"),
        HookRow(f"{name}.hook_normalized", shape, "after it, before gamma and beta"),
    ]


def _saturation(name: str) -> list[HookRow]:
    return [
        HookRow(f"{name}.hook_scale", HEADS, "what z is divided by; 1 where nothing is counted"),
        HookRow(f"{name}.hook_normalized", HEADS, "after it"),
    ]


def _transformer(config: ModelConfig) -> list[HookRow]:
    block, attn, mlp = "blocks.{layer}.", "blocks.{layer}.attn.", "blocks.{layer}.mlp."
    post, sandwich = config.norm_placement == "post", config.norm_placement == "sandwich"
    rows = [HookRow("hook_embed", STREAM, "token embedding")]
    if config.positions in ABSOLUTE:
        rows += [HookRow("hook_pos_embed", STREAM, "what is added for the position")]
    rows += [HookRow(block + "hook_resid_pre", STREAM, "the stream before the block")]
    rows += [] if post else _norm(block + "ln1")
    rotary = config.positions == "rotary"
    turned_q = HookRow(attn + "hook_rot_q", HEADS, "queries, turned by their position")
    turned_k = HookRow(attn + "hook_rot_k", HEADS, "keys, turned by their position")
    rows += [HookRow(attn + "hook_q", HEADS, "queries"), *([turned_q] if rotary else [])]
    rows += [HookRow(attn + "hook_k", HEADS, "keys"), *([turned_k] if rotary else [])]
    counting = f", -1, 0 or 1 in {config.averaging_heads} of the heads" * config.counters
    rows += [HookRow(attn + "hook_v", HEADS, "values" + counting)]
    z = "the mean of the values under the pattern" + ", normed" * config.head_norm
    z += "; where they are counted, their saturated sum" * config.counters
    rows += [
        HookRow(attn + "hook_attn_scores", PAIRS, "scores with bias, -inf where masked"),
        HookRow(attn + "hook_pattern", PAIRS, "their softmax: where a head looks"),
        *(_norm(attn + "norm_z", HEADS) if config.head_norm else []),
        *(_saturation(attn + "norm_z") if config.counters else []),
        HookRow(attn + "hook_z", HEADS, z),
        HookRow(attn + "hook_result", ("batch", "pos", "head", "d_model"), "z W_O, head by head"),
    ]
    rows += _norm(block + "ln1_post") if sandwich else []
    rows += [HookRow(block + "hook_attn_out", STREAM, "what attention adds to the stream")]
    rows += _norm(block + "ln1") if post else []
    if config.mlp != "none":
        rows += [HookRow(block + "hook_resid_mid", STREAM, "the stream between attention and MLP")]
        rows += [] if post else _norm(block + "ln2")
        rows += [HookRow(mlp + "hook_pre", HIDDEN, "what the activation function gets")]
        if config.mlp == "gated":
            rows += [HookRow(mlp + "hook_pre_linear", HIDDEN, "what the gate multiplies")]
        rows += [HookRow(mlp + "hook_post", HIDDEN, "the hidden layer")]
        rows += _norm(block + "ln2_post") if sandwich else []
        rows += [HookRow(block + "hook_mlp_out", STREAM, "what the MLP adds to the stream")]
        rows += _norm(block + "ln2") if post else []
    rows += [HookRow(block + "hook_resid_post", STREAM, "the stream after the block")]
    return rows + _norm("ln_final")


def _recurrent(config: ModelConfig) -> list[HookRow]:
    block = "blocks.{layer}."
    rows = [
        HookRow("hook_embed", STREAM, "token embedding"),
        HookRow(block + "hook_resid_pre", STREAM, "what the layer reads"),
    ]
    if config.architecture == "lstm":
        rows += [HookRow(block + "hook_cell", STREAM, "cells; the next position goes on from them")]
    meaning = "hidden states; the next position goes on from them"
    return [*rows, HookRow(block + "hook_resid_post", STREAM, meaning)]


def _convolution(config: ModelConfig) -> list[HookRow]:
    block = "blocks.{layer}."
    post, sandwich = config.norm_placement == "post", config.norm_placement == "sandwich"
    return [
        HookRow("hook_embed", STREAM, "token embedding"),
        HookRow(block + "hook_resid_pre", STREAM, "the stream before the block"),
        *([] if post else _norm(block + "ln1")),
        HookRow(block + "conv.hook_pre", STREAM, "what the activation function gets"),
        HookRow(block + "conv.hook_post", STREAM, "after it"),
        *(_norm(block + "ln1_post") if sandwich else []),
        HookRow(block + "hook_conv_out", STREAM, "what the convolution adds to the stream"),
        *(_norm(block + "ln1") if post else []),
        HookRow(block + "hook_resid_post", STREAM, "the stream after the block"),
        *_norm("ln_final"),
    ]


def _ngram(config: ModelConfig) -> list[HookRow]:
    return [
        HookRow(
            "blocks.0.hook_resid_pre",
            ("batch", "pos", "window"),
            "the last order - 1 tokens in one-hot form: all that it remembers",
        )
    ]
