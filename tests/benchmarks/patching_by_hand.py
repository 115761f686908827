"""Activation patching as one writes it in plain PyTorch for heads.

A head's output at a position is a slice of what the map behind the heads, ``attn.o``, reads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from models.languages import END_ID


class Heads:
    """While it is used, hears what ``attn.o`` of every block reads, and may change it."""

    def __init__(self, model: nn.Module) -> None:
        self.maps = [block.attn.o for block in model.blocks]
        self.read: list[Tensor] = []

    def keep(self, _: nn.Module, inputs: tuple[Tensor]) -> None:
        self.read.append(inputs[0])

    def during(self, model: nn.Module, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The logits of END at the end, and what every map has read."""
        self.read = []
        handles = [linear.register_forward_pre_hook(self.keep) for linear in self.maps]
        logits = model(tokens)[:, -1, END_ID]
        for handle in handles:
            handle.remove()
        return logits, self.read


@torch.no_grad()
def batched_sweep(model: Any, clean: Tensor, corrupted: Tensor) -> Tensor:
    """The mean logit after each patch, [layer, head, position]: a forward pass per layer, in which
    every site has its own rows."""
    heads = Heads(model)
    _, cache = heads.during(model, clean)
    n_heads, d_head = model.config.n_heads, model.config.d_head
    pairs, length = clean.shape
    tiled = corrupted.repeat(n_heads * length, 1)
    head, position = (
        x.flatten()
        for x in torch.meshgrid(torch.arange(n_heads), torch.arange(length), indexing="ij")
    )
    rows = torch.arange(n_heads * length)
    found = []
    for linear, read in zip(heads.maps, cache, strict=True):
        kept = read.view(pairs, length, n_heads, d_head)[:, position, head].transpose(0, 1)

        def patch(_: nn.Module, inputs: tuple[Tensor], kept: Tensor = kept) -> Tensor:
            z = inputs[0].clone().view(n_heads * length, pairs, length, n_heads, d_head)
            z[rows, :, position, head] = kept
            return z.view(inputs[0].shape)

        handle = linear.register_forward_pre_hook(patch)
        logits = model(tiled)[:, -1, END_ID]
        handle.remove()
        found.append(logits.view(n_heads, length, pairs).double().mean(dim=-1))
    return torch.stack(found)
