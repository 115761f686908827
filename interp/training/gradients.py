"""Where does the gradient arrive, and how much of it passes the softmax of attention?"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from interp.model import HookedModel

BLOCK = re.compile(r"(?:^|\.)blocks\.(\d+)\.")


def norms_by_layer(gradients: Mapping[str, Tensor]) -> dict[int, float]:
    """The Euclidean norm of the gradient of each block's weights, by the number of the block.

    Args:
        gradients: gradients by the name of the weight; those of a block have "blocks.3." in it.
            What lies outside the blocks is left out.
    """
    squares: dict[int, float] = {}
    for name, gradient in gradients.items():
        if match := BLOCK.search(name):
            layer = int(match[1])
            squares[layer] = squares.get(layer, 0.0) + float(gradient.double().square().sum())
    return {layer: math.sqrt(squares[layer]) for layer in sorted(squares)}


def gradients_of(model: nn.Module, loss: Float[Tensor, ""]) -> dict[str, Tensor]:
    """The gradient of a loss by the name of the weight; 0 where the loss does not depend on it."""
    named = dict(model.named_parameters())
    gradients = torch.autograd.grad(
        loss, list(named.values()), allow_unused=True, materialize_grads=True
    )
    return dict(zip(named, gradients, strict=True))


@dataclass(frozen=True)
class Softmax:
    """The softmax of one layer's attention.

    Attributes:
        entropy: entropy of the attention of a query, relative to even attention to all keys that it
            may look at: 1 is even, 0 is a single key. Mean over heads and over queries with two
            keys or more; NaN if there are none.
        passed: the norm of the gradient of the scores divided by that of the weights. Even
            attention to k keys passes at most 1/k, and attention to a single key passes nothing.
    """

    entropy: float
    passed: float


def softmax_by_layer(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    loss: Callable[[Tensor], Tensor],
    inside: Bool[Tensor, "batch pos"],
) -> dict[int, Softmax]:
    """The softmax of self-attention, by the number of the block; empty if the model has none.

    Args:
        loss: the loss of the logits.
        inside: the positions that are no padding.
    """
    hooks = [
        f"blocks.{layer}.attn.hook_{name}"
        for layer in range(model.cfg.n_layers)
        for name in ("attn_scores", "pattern")
    ]
    if not set(hooks) <= set(model.hook_dict):
        return {}
    seen: dict[str, Tensor] = {}

    def keep(tensor: Tensor, hook: Any) -> None:
        seen[hook.name] = tensor

    logits = model.run_with_hooks(tokens, fwd_hooks=[(name, keep) for name in hooks])
    slopes = torch.autograd.grad(loss(logits), [seen[name] for name in hooks])
    layers = {}
    for layer in range(model.cfg.n_layers):
        scores, pattern = (seen[name].detach().double() for name in hooks[2 * layer :][:2])
        to_scores, to_pattern = (slope.double() for slope in slopes[2 * layer :][:2])
        may = scores.isfinite()
        passed = float(to_scores.norm() / (to_pattern * may).norm())
        keys = may.sum(dim=-1)
        queries = (keys > 1) & inside[:, None]
        entropy = torch.special.entr(pattern).sum(dim=-1)[queries] / keys[queries].double().log()
        layers[layer] = Softmax(float(entropy.mean()), passed)
    return layers
