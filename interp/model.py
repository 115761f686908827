"""What the lenses ask of a model, and how they read its activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

Metric = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, " batch"]]
"""One number per word from its logits; higher means more of the behaviour that is explained."""


@runtime_checkable
class HookedModel(Protocol):
    """TransformerLens' hook interface: HookedRootModule's names, and ``cfg``."""

    @property
    def cfg(self) -> Any: ...

    def __call__(self, tokens: Tensor) -> Tensor: ...

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any: ...

    def run_with_cache(self, *args: Any, **kwargs: Any) -> Any: ...


@runtime_checkable
class ReadableModel(HookedModel, Protocol):
    """A hooked model whose weights are read too: ``W_O`` of its blocks, and the unembedding."""

    @property
    def blocks(self) -> Any: ...

    @property
    def W_U(self) -> Tensor: ...

    @property
    def b_U(self) -> Tensor: ...


def logit_at(token: int, positions: Int[Tensor, " batch"] | int = -1) -> Metric:
    """The logit of one token at one position of every word.

    Args:
        positions: one for all words, or one per word; they count BOS as position 0.
    """

    def metric(logits: Tensor) -> Tensor:
        if isinstance(positions, int):
            return logits[:, positions, token]
        return logits[torch.arange(len(logits), device=logits.device), positions, token]

    return metric


@torch.no_grad()
def activations(
    model: HookedModel,
    tokens: Int[Tensor, "batch pos"],
    names: Sequence[str],
    batch_size: int = 256,
) -> dict[str, Tensor]:
    """The activations at the named hooks, on the CPU, [batch, pos, ...]; nothing else is kept."""
    parts: dict[str, list[Tensor]] = {name: [] for name in names}
    for chunk in tokens.split(batch_size):
        _, cache = model.run_with_cache(chunk, names_filter=list(names))
        for name in names:
            parts[name].append(cache[name].cpu())
    return {name: torch.cat(part) for name, part in parts.items()}
