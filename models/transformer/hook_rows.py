"""The hooks of a Transformer: their names in one table."""

from __future__ import annotations

from models.config import ABSOLUTE, ModelConfig
from models.hooks import HEADS, HIDDEN, PAIRS, STREAM, HookRow, norm_rows
from models.transformer.counting import with_counting


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a Transformer, in the order of computation."""
    block, attn, mlp = "blocks.{layer}.", "blocks.{layer}.attn.", "blocks.{layer}.mlp."
    post, sandwich = config.norm_placement == "post", config.norm_placement == "sandwich"
    rows = [HookRow("hook_embed", STREAM, "token embedding")]
    if config.positions in ABSOLUTE:
        rows += [HookRow("hook_pos_embed", STREAM, "what is added for the position")]
    rows += [HookRow(block + "hook_resid_pre", STREAM, "the stream before the block")]
    rows += [] if post else norm_rows(block + "ln1")
    rotary = config.positions == "rotary"
    turned_q = HookRow(attn + "hook_rot_q", HEADS, "queries, turned by their position")
    turned_k = HookRow(attn + "hook_rot_k", HEADS, "keys, turned by their position")
    rows += [HookRow(attn + "hook_q", HEADS, "queries"), *([turned_q] if rotary else [])]
    rows += [HookRow(attn + "hook_k", HEADS, "keys"), *([turned_k] if rotary else [])]
    rows += [HookRow(attn + "hook_v", HEADS, "values")]
    rows += [
        HookRow(attn + "hook_attn_scores", PAIRS, "scores with bias, -inf where masked"),
        HookRow(attn + "hook_pattern", PAIRS, "their softmax: where a head looks"),
        HookRow(attn + "hook_z", HEADS, "the mean of the values under the pattern"),
        HookRow(attn + "hook_result", ("batch", "pos", "head", "d_model"), "z W_O, head by head"),
    ]
    rows += norm_rows(block + "ln1_post") if sandwich else []
    rows += [HookRow(block + "hook_attn_out", STREAM, "what attention adds to the stream")]
    rows += norm_rows(block + "ln1") if post else []
    if config.mlp != "none":
        rows += [HookRow(block + "hook_resid_mid", STREAM, "the stream between attention and MLP")]
        rows += [] if post else norm_rows(block + "ln2")
        rows += [HookRow(mlp + "hook_pre", HIDDEN, "what the activation function gets")]
        if config.mlp == "gated":
            rows += [HookRow(mlp + "hook_pre_linear", HIDDEN, "what the gate multiplies")]
        rows += [HookRow(mlp + "hook_post", HIDDEN, "the hidden layer")]
        rows += norm_rows(block + "ln2_post") if sandwich else []
        rows += [HookRow(block + "hook_mlp_out", STREAM, "what the MLP adds to the stream")]
        rows += norm_rows(block + "ln2") if post else []
    rows += [HookRow(block + "hook_resid_post", STREAM, "the stream after the block")]
    return with_counting([*rows, *norm_rows("ln_final")], config.counting)
