"""The hooks of a Transformer: their names in one table."""

from __future__ import annotations

from models.choices import ABSOLUTE
from models.hooks import HEADS, HIDDEN, PAIRS, STREAM, VALUES, HookRow, norm_rows
from models.model_config import ModelConfig
from models.transformer.counting import with_counting


def hook_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of a Transformer, in the order of computation."""
    rows = [HookRow("hook_embed", STREAM, "token embedding")]
    if config.positions in ABSOLUTE:
        rows += [HookRow("hook_pos_embed", STREAM, "what is added for the position")]
    return with_counting([*rows, *block_rows(config), *norm_rows("ln_final")], config.counting)


def block_rows(config: ModelConfig, cross: bool = False) -> list[HookRow]:
    """Every hook of a block.

    Args:
        cross: whether the block also attends to the source of a pair.
    """
    block, mlp = "blocks.{layer}.", "blocks.{layer}.mlp."
    parallel, gives = config.parallel, "adds to the stream" if config.residual else "passes on"
    post, sandwich = config.norm_placement == "post", config.norm_placement == "sandwich"

    def normed(name: str, part: list[HookRow]) -> list[HookRow]:
        """A part with the norms before and after it."""
        before = [] if post else norm_rows(block + name)
        *inside, out = part
        inside += norm_rows(block + f"{name}_post") if sandwich else []
        return [*before, *inside, out, *(norm_rows(block + name) if post else [])]

    out = HookRow(block + "hook_attn_out", STREAM, f"what attention {gives}")
    rows = [HookRow(block + "hook_resid_pre", STREAM, "the stream before the block")]
    rows += normed("ln1", [*_attention_rows(config), out])
    if cross:
        mid = "the stream between attention and cross-attention"
        rows += [HookRow(block + "hook_resid_mid", STREAM, mid)]
        out = HookRow(block + "hook_cross_attn_out", STREAM, f"what cross-attention {gives}")
        rows += normed("ln_cross", [*cross_rows(config), out])
    if config.mlp != "none":
        where, before = ("mid2", "cross-attention") if cross else ("mid", "attention")
        stream = f"the stream between {before} and MLP"
        rows += [] if parallel else [HookRow(block + f"hook_resid_{where}", STREAM, stream)]
        hidden = [HookRow(mlp + "hook_pre", HIDDEN, "what the activation function gets")]
        if config.mlp == "gated":
            hidden += [HookRow(mlp + "hook_pre_linear", HIDDEN, "what the gate multiplies")]
        hidden += [HookRow(mlp + "hook_post", HIDDEN, "the hidden layer")]
        out = HookRow(block + "hook_mlp_out", STREAM, f"what the MLP {gives}")
        rows += [*hidden, out] if parallel else normed("ln2", [*hidden, out])
    return [*rows, HookRow(block + "hook_resid_post", STREAM, "the stream after the block")]


def _attention_rows(config: ModelConfig) -> list[HookRow]:
    attn, rotary = "blocks.{layer}.attn.", config.positions == "rotary"
    values = VALUES if config.value_width else HEADS
    turned_q = HookRow(attn + "hook_rot_q", HEADS, "queries, turned by their position")
    turned_k = HookRow(attn + "hook_rot_k", HEADS, "keys, turned by their position")
    return [
        HookRow(attn + "hook_q", HEADS, "queries"),
        *_qk_norm_rows(attn + "q_norm", config),
        *([turned_q] if rotary else []),
        HookRow(attn + "hook_k", HEADS, "keys"),
        *_qk_norm_rows(attn + "k_norm", config),
        *([turned_k] if rotary else []),
        HookRow(attn + "hook_v", values, "values"),
        *_read_rows(attn, values),
    ]


def cross_rows(config: ModelConfig) -> list[HookRow]:
    """Every hook of cross-attention."""
    attn, values = "blocks.{layer}.cross_attn.", VALUES if config.value_width else HEADS
    return [
        HookRow(attn + "hook_k", HEADS, "keys, of the encoder's last stream"),
        *_qk_norm_rows(attn + "k_norm", config),
        HookRow(attn + "hook_v", values, "values, of the encoder's last stream"),
        HookRow(attn + "hook_q", HEADS, "queries"),
        *_qk_norm_rows(attn + "q_norm", config),
        *_read_rows(attn, values),
    ]


def _qk_norm_rows(name: str, config: ModelConfig) -> list[HookRow]:
    return [] if config.qk_norm == "none" else norm_rows(name, HEADS)


def _read_rows(attn: str, values: tuple[str, ...]) -> list[HookRow]:
    return [
        HookRow(attn + "hook_attn_scores", PAIRS, "scores with bias, -inf where masked"),
        HookRow(attn + "hook_pattern", PAIRS, "their softmax: where a head looks"),
        HookRow(attn + "hook_z", values, "the mean of the values under the pattern"),
        HookRow(attn + "hook_result", ("batch", "pos", "head", "d_model"), "z W_O, head by head"),
    ]
