"""Gradients that see through self-repair: gradient interaction modifications (Edin et al. 2025).

Attention repairs itself: a weight that is taken away is shared out among the others. So a gradient
says that the weight did little. GIM changes the backward pass alone, in three places:

- the softmax of the scores s passes gradients as softmax(s / T) would, with the temperature T = 2
  and without the factor 1 / T;
- the scale of every norm counts as a constant;
- where two activations are multiplied, each of them gets half of the gradient. So values get 1/2,
  queries and keys 1/4 (the pattern gets one half, of which the scores give each factor one half),
  and so do both factors of a gated MLP 1/2.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from interp.model import HookedModel

TEMPERATURE = 2.0
SHARES = {
    "attn.hook_q": 0.25,
    "attn.hook_k": 0.25,
    "attn.hook_v": 0.5,
    "mlp.hook_pre": 0.5,  # of a gated MLP
    "mlp.hook_pre_linear": 0.5,
}

Hook = Callable[[Tensor, Any], Tensor | None]


def gim_hooks(model: HookedModel) -> list[tuple[str, Hook]]:
    """Hooks with which gradients through the model are those of GIM; activations do not change.

    A hook that reads queries, keys, values or what enters a gate must be set before these: what it
    keeps then has the modified gradient.
    """
    hooks: list[tuple[str, Hook]] = []
    for name in model.hook_dict:
        gated = name.rsplit(".", 1)[0] + ".hook_pre_linear" in model.hook_dict
        if name.endswith("attn.hook_pattern"):
            hooks.append((name, _softened))
        elif name.endswith("hook_scale"):
            hooks.append((name, lambda scale, hook: scale.detach()))
        for place, share in SHARES.items():
            if name.endswith(place) and (gated or "attn" in place):
                hooks.append((name, _scaled(share)))
    return hooks


def _scaled(share: float) -> Hook:
    """Passes the activation on as it is, and a share of its gradient back."""

    def scale(x: Tensor, hook: object) -> Tensor:
        return x.detach() + share * (x - x.detach())

    return scale


def _softened(pattern: Tensor, hook: object) -> None:
    """Changes the gradient of a pattern p such that softmax's own backward pass, which follows,
    gives the scores what a softmax at the temperature T would.

    Softmax passes p (g - sum(p g)) on. With t the pattern at T, t (g - sum(t g)) is wanted. This
    sums to 0. So softmax makes it of g = t (g - sum(t g)) / p. The pattern at T needs no scores: it
    is p^(1/T), normalised.
    """
    if not pattern.requires_grad:
        return
    p = pattern.detach()

    def soften(gradient: Tensor) -> Tensor:
        t = p ** (1 / TEMPERATURE)
        t = t / t.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(p.dtype).tiny)
        wanted = t * (gradient - (t * gradient).sum(dim=-1, keepdim=True))
        return torch.where(p > 0, wanted / p, 0.0)

    pattern.register_hook(soften)
