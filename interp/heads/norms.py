"""The norms between a part of a model and the logits, and what of a norm is linear."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from interp.model import ReadableModel


def without_scale(norm: Any, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """The linear part of a norm: its centring and its gain, without its scale and bias.

    The norm is one of our models (``centres``) or of a ``TransformerBridge`` (``uses_rms_norm``,
    ``uses_weight_offset``: the gain is 1 + weight, as in Gemma). Any other is taken for a
    LayerNorm.
    """
    if getattr(norm, "centres", not getattr(norm, "uses_rms_norm", False)):
        x = x - x.mean(dim=-1, keepdim=True)
    gamma = getattr(norm, "weight", None)
    if not isinstance(gamma, torch.Tensor):
        return x
    gain = gamma.detach().to(x)
    return x * (1 + gain if getattr(norm, "uses_weight_offset", False) else gain)


def norms_to_logits(model: ReadableModel, layer: int, part: str) -> list[str] | None:
    """The names of the norms that a part passes on its direct way to the logits, in order.

    None says that there is no direct way: no residual passes on what the part wrote.

    A model of ours names them itself (``norms_on_the_way``). In a ``TransformerBridge`` it is the
    final norm, and before it the norm that some blocks have behind their attention.

    Args:
        part: "embed", "attn" or "mlp", of block ``layer``.
    """
    named = getattr(model, "norms_on_the_way", None)
    if named is not None:
        return None if (way := named(layer, part)) is None else list(way)
    norm = f"blocks.{layer}.ln1_post"
    behind = part == "attn" and f"{norm}.hook_scale" in model.hook_dict
    return [norm, "ln_final"] if behind else ["ln_final"]
