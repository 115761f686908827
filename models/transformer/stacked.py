"""Weights of all blocks in one tensor, under TransformerLens' names."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from models.errors import UserError

OF_HEADS = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")
OF_MLPS = ("W_in", "W_out", "b_in", "b_out")


def stacked(part: str, name: str) -> property:
    """A property of a Transformer: a weight of a part of each block, [layer, ...].

    Args:
        part: "attn" or "mlp".
        name: the weight's name in the part, which is TransformerLens' name of all together.

    Raises:
        UserError: when it is read: the blocks have no such part.
    """

    def read(model: Any) -> Tensor:
        parts = [getattr(block, part) for block in model.blocks]
        if not all(parts):
            raise UserError(f"the model has no {name}: it was built without an {part}")
        return torch.stack([getattr(each, name) for each in parts])

    return property(read)
