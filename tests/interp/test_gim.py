"""GIM's gradients against a network written out by hand, with a softmax of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from interp.causal.metrics import logit_at
from interp.circuits.effects import edge_effects
from interp.circuits.gim import gim_hooks
from models.languages import END_ID
from models.transformer.model import HookedTransformer


class SofterBackwards(torch.autograd.Function):
    """softmax(x); backwards as if it were softmax(x / 2), without the factor 1/2 of x / 2."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        ctx.save_for_backward(scores)
        return scores.softmax(-1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (scores,) = ctx.saved_tensors
        soft = (scores / 2).softmax(-1)
        jacobian = torch.diag_embed(soft) - soft[..., None] * soft[..., None, :]
        return (jacobian @ gradient[..., None])[..., 0]


def part_of(x: Tensor, share: float) -> Tensor:
    return share * x + (1 - share) * x.detach()


def frozen_norm(x: Tensor, eps: float, gamma: Tensor | None, beta: Tensor | None) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scale = (centred.pow(2).mean(-1, keepdim=True) + eps).sqrt().detach()
    normed = centred / scale
    return normed if gamma is None or beta is None else normed * gamma + beta


def by_hand(model: HookedTransformer, x: Tensor, read: dict[str, Tensor], token: int) -> Tensor:
    """END's logit at the last position, of one layer; ``read`` is added to what the parts read."""
    block, eps = model.blocks[0], model.config.eps
    attn, mlp = block.attn, block.mlp

    def normed(norm: Any, x: Tensor) -> Tensor:
        return frozen_norm(x, eps, norm.weight, norm.bias)

    length, heads, shares = x.shape[1], [], {"q": 0.25, "k": 0.25, "v": 0.5}
    for head in range(model.config.n_heads):
        q, k, v = (
            part_of(
                normed(block.ln1, x + read[f"L0H{head}.{slot}"])
                @ getattr(attn, f"W_{slot.upper()}")[head]
                + getattr(attn, f"b_{slot.upper()}")[head],
                shares[slot],
            )
            for slot in "qkv"
        )
        scores = q @ k.transpose(1, 2) * attn.scale
        later = torch.ones(length, length).triu(1).bool()
        pattern = SofterBackwards.apply(scores.masked_fill(later, -torch.inf))
        heads.append(pattern @ v @ attn.W_O[head])
    x = x + sum(heads) + attn.b_O
    into = normed(block.ln2, x + read["L0 mlp"])
    gate = part_of(into @ mlp.W_gate + mlp.fc_gate.bias, 0.5)
    line = part_of(into @ mlp.W_in + mlp.b_in, 0.5)
    x = x + mlp.act(gate) * line @ mlp.W_out + mlp.b_out
    last = frozen_norm(x + read["logits"], eps, None, None)
    return (last @ model.W_U + model.b_U)[:, -1, token]


def test_gim_is_the_gradient_of_a_network_with_three_changes(
    small_model: Callable[..., HookedTransformer],
) -> None:
    model = small_model(n_layers=1, n_heads=2, mlp="gated", positions="none").double()
    clean, corrupted = model.to_tokens(["abcab", "bbabb"]), model.to_tokens(["abaab", "bcabc"])
    x, other = model.W_E[clean].detach(), model.W_E[corrupted].detach()
    names = [f"L0H{head}.{slot}" for head in (0, 1) for slot in "qkv"] + ["L0 mlp", "logits"]
    read = {name: torch.zeros_like(x, requires_grad=True) for name in names}
    logit = by_hand(model, x, read, END_ID)
    torch.testing.assert_close(logit, model(clean)[:, -1, END_ID])
    gradients = dict(zip(names, torch.autograd.grad(logit.sum(), read.values()), strict=True))
    table = edge_effects(model, clean, corrupted, logit_at(END_ID), ["GIM"])
    table["change"] = table["effect"] * (table["clean"] - table["corrupted"])
    found = table[table["sender"] == "embed"].pivot(
        index="receiver", columns="pair", values="change"
    )
    expected = {name: ((x - other) * gradients[name]).sum((1, 2)).tolist() for name in names}
    for name in names:
        assert found.loc[name].tolist() == pytest.approx(expected[name], abs=1e-9), name
    plain = edge_effects(model, clean, corrupted, logit_at(END_ID), ["EAP"])
    assert (plain["effect"] - table["effect"]).abs().max() > 0.01


def test_activations_are_what_they_were(model: HookedTransformer, tokens: Tensor) -> None:
    with torch.no_grad():
        changed = model.run_with_hooks(tokens, fwd_hooks=gim_hooks(model))
        torch.testing.assert_close(changed, model(tokens))
