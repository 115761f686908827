"""The norms between a part of a model and the logits, and what of a norm is linear."""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from interp.model import ReadableModel


def without_scale(norm: Any, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
    """The linear part of a norm: its centring and its gain, without its scale and bias."""
    if getattr(norm, "centres", True):
        x = x - x.mean(dim=-1, keepdim=True)
    gamma = getattr(norm, "weight", None)
    return x if gamma is None else x * gamma.detach().to(x.device)


def norms_to_logits(model: ReadableModel, layer: int, part: str) -> list[str]:
    """The names of the norms that a part passes on its direct way to the logits, in order.

    If the model has no ``norms_on_the_way``, it is the final norm alone.

    Args:
        part: "embed", "attn" or "mlp", of block ``layer``.
    """
    named = getattr(model, "norms_on_the_way", None)
    return ["ln_final"] if named is None else named(layer, part)
