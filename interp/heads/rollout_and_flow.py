"""Rollout and flow: attention through all layers at once (Abnar & Zuidema 2020)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from torch import Tensor

FLOW_UNIT = 2**24
"""Capacities have to be integers: this one stands for a whole row of attention."""


def rollout(
    pattern: Float[Tensor, "layer head query key"], residual: bool = True
) -> Float[Tensor, "query key"]:
    """The share of each input position in each output (Abnar & Zuidema 2020).

    A layer is taken to pass on half of what a position holds, and half of what it attends to on
    average over the heads. The layers are multiplied.

    Args:
        pattern: the attention of one word.
        residual: whether a block adds to what it reads; if not, a layer passes on attention alone.

    Returns:
        Shares from 0 to 1; each row sums to 1, or to 0 where nothing arrives.
    """
    reached = torch.eye(pattern.shape[-1], dtype=pattern.dtype)
    for passed in _passed_on(pattern, residual):
        reached = passed @ reached
    return reached


def flow(
    pattern: Float[Tensor, "layer head query key"], at: int, residual: bool = True
) -> Float[np.ndarray, " key"]:
    """The largest flow from each input position to position ``at`` of the last layer.

    The layers of ``rollout`` are the capacities of a network of positions (Abnar & Zuidema 2020).

    Args:
        pattern: the attention of one word.
        at: a position; BOS is 0.
        residual: see ``rollout``.

    Returns:
        Flows from 0 to 1. They do not sum to 1 as the rows of ``rollout`` do, because each is the
        largest flow that its input position can have by itself.
    """
    layers, positions = len(pattern), pattern.shape[-1]
    layer, query, key = np.nonzero((passed := _passed_on(pattern, residual).numpy()) > 0)
    capacity = np.rint(passed[layer, query, key] * FLOW_UNIT).astype(np.int32)
    ends = ((layer + 1) * positions + query, layer * positions + key)
    nodes = (layers + 1) * positions
    network = csr_array((capacity, ends), shape=(nodes, nodes))
    source = layers * positions + at
    flows = [maximum_flow(network, source, sink).flow_value for sink in range(positions)]
    return np.array(flows) / FLOW_UNIT


def _passed_on(
    pattern: Float[Tensor, "layer head query key"], residual: bool
) -> Float[Tensor, "layer query key"]:
    """Attention, averaged over heads, and as much residual; without keys, all is residual."""
    passed = pattern.mean(dim=1)
    if residual:
        passed = passed + torch.eye(pattern.shape[-1], dtype=pattern.dtype)
    total = passed.sum(dim=-1, keepdim=True)
    return passed / total.masked_fill(total == 0, 1.0)
