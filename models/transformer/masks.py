"""Masks: which positions may attend to which, and the softmax over those that may."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.choices import Mask


def allowed(
    mask: Mask,
    positions: int,
    valid: Bool[Tensor, "batch key"] | None = None,
    device: torch.device | None = None,
    window: int = 0,
) -> Bool[Tensor, "#batch query key"]:
    """True where a query may attend to a key.

    Args:
        mask: "causal" key <= query, "strictly_causal" key < query, "bidirectional" every key.
        valid: False on padding, which nobody may attend to; None where there is none.
        device: the device of the mask; that of ``valid``.
        window: the number of last keys that may be seen; 0 means all.
    """
    everything = torch.ones(1, positions, positions, dtype=torch.bool, device=device)
    if mask == "causal":
        everything = everything.tril()
    elif mask == "strictly_causal":
        everything = everything.tril(-1)
    if window:
        everything = everything.triu(1 - window)
    return everything if valid is None else everything & valid[:, None]


def masked_softmax(
    scores: Float[Tensor, "*batch query key"], may: Bool[Tensor, "*#batch #query key"]
) -> Float[Tensor, "*batch query key"]:
    """Softmax over the allowed keys: the others are exactly 0 and every row sums to 1.

    A query that may attend to nothing (the first under a strictly causal mask) gets a row of zeros.
    """
    # With -inf such a row would be NaN, and so would its gradients.
    weights = scores.masked_fill(~may, torch.finfo(scores.dtype).min).softmax(dim=-1)
    return weights.masked_fill(~may, 0.0)
