"""The search for edges by gradients grows with the words and the layers, not with the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from interp.causal.metrics import logit_at
from interp.circuits.attribution import Gradient, attribute
from interp.circuits.effects import _midpoints, edge_effects
from interp.circuits.graph import Graph
from models.languages import END_ID
from models.transformer.model import HookedTransformer

WIDTH, LENGTH, PAIRS, HEADS = 16, 6, 2, 4


class LargestTensor(TorchDispatchMode):
    """Notes how many numbers the largest tensor made inside has; views count as they are stored."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        out = func(*args, **(kwargs or {}))
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                stored = x.untyped_storage().nbytes() // x.element_size()
                self.numbers = max(self.numbers, stored)
        return out


@pytest.fixture
def network(small_model: Callable[..., HookedTransformer]) -> Callable[[int], HookedTransformer]:
    return lambda layers: small_model(
        n_layers=layers, n_heads=HEADS, d_model=WIDTH, positions="none", d_mlp=8
    )


def largest(model: HookedTransformer, method: Gradient, steps: int, memory: int) -> int:
    clean = model.to_tokens(["abcab", "bbabb"])
    corrupted = model.to_tokens(["abaab", "bbabc"])
    with LargestTensor() as tensor:
        metric = logit_at(END_ID, torch.full((PAIRS,), LENGTH - 1))
        attribute(model, clean, corrupted, metric, method, _midpoints(steps), memory)
    return tensor.numbers


@pytest.mark.parametrize("method", ["EAP-IG", "conductance"])
def test_no_tensor_grows_with_layers_or_steps(
    network: Callable[[int], HookedTransformer], method: Gradient
) -> None:
    """Each step by itself: what the heads of one layer read of all pairs, and the scores."""
    small, large = network(2), network(5)
    edges = len(Graph.of(large).edges)
    streams = PAIRS * LENGTH * WIDTH
    bound = max(3 * HEADS * streams, edges * PAIRS)  # queries, keys and values of all heads
    memory = 1  # a word and a step at a time
    few, many = largest(large, method, 2, memory), largest(large, method, 4, memory)
    assert few == many
    assert many <= bound
    assert many <= max(largest(small, method, 2, memory), edges * PAIRS)
    assert bound < edges * streams / 50  # [edge, pair, pos, d_model] is far away


def test_exact_effects_are_not_planned_as_a_table_of_all_edges_by_all(
    network: Callable[[int], HookedTransformer],
) -> None:
    model = network(2)
    edges = len(Graph.of(model).edges)
    clean, corrupted = model.to_tokens(["ab"]), model.to_tokens(["aa"])
    with LargestTensor() as tensor:
        edge_effects(model, clean, corrupted, logit_at(END_ID), ["exact"], memory=2**15)
    assert tensor.numbers < edges**2 / 2
