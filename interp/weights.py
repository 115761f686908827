"""The weights of a block's attention, whatever kind of model it is in.

Models differ: some have no biases, and in some several heads share the keys and values of one group
(grouped-query attention, Ainslie et al. 2023).
"""

from __future__ import annotations

from typing import Any

from jaxtyping import Float
from torch import Tensor

from interp.model import HookedModel


def key_heads(model: HookedModel) -> int:
    """The number of keys and values that an attention layer has per position.

    Without grouped queries it is as many as heads.
    """
    return int(getattr(model.cfg, "n_key_value_heads", None) or model.cfg.n_heads)


def of_each_head(x: Tensor, heads: int, dim: int = 0) -> Tensor:
    """Keys, values or their weights by head, when they are given by group; others are unchanged.

    Args:
        heads: number of heads.
        dim: the axis of the groups.
    """
    return x if x.shape[dim] == heads else x.repeat_interleave(heads // x.shape[dim], dim)


def head_projection(
    attention: Any, name: str, head: int, heads: int
) -> tuple[Float[Tensor, "d_model d_head"], Float[Tensor, " d_head"]]:
    """The matrix and bias of one head's queries, keys or values; a head reads those of its group.

    Args:
        attention: the attention of a block.
        name: "Q", "K" or "V".
        heads: number of heads of the layer.

    Returns:
        The weight, and the bias: zeros if the model has none.
    """
    weight = of_each_head(getattr(attention, f"W_{name}"), heads)[head]
    bias = getattr(attention, f"b_{name}", None)
    if bias is None:
        return weight, weight.new_zeros(weight.shape[-1])
    return weight, of_each_head(bias, heads)[head]


def output_bias(attention: Any) -> Float[Tensor, " d_model"]:
    """The bias that a layer of attention adds to the stream: zeros if the model has none."""
    bias: Tensor | None = getattr(attention, "b_O", None)
    return attention.W_O.new_zeros(attention.W_O.shape[-1]) if bias is None else bias
