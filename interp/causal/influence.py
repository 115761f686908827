"""The influence of an earlier symbol on a later position: its strength, and its steps.

Strength is a gradient. Steps are counted in the graph of the forward pass: its nodes are the
embeddings and the states of each layer, position by position, and a node has an arrow from every
other node that it is computed from, which its Jacobian shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.model import HookedModel, require_hooks
from interp.statistics import bootstrap_sums

EMBEDDING = "hook_embed"
STATES = ("hook_resid_post", "hook_cell")
"""Hooks of what a layer hands on: its output, and the cells of an LSTM."""

Node = tuple[int, int]
"""A layer, from -1 for the embeddings, and a position."""


def influence(
    model: HookedModel, tokens: Int[Tensor, "word pos"], metric: Metric
) -> Float[np.ndarray, "word pos"]:
    """|d metric / d embedding| of each position: the Euclidean norm of the gradient at
    ``hook_embed``, in the metric's unit by a unit of the embedding.

    Args:
        metric: the quantity that is influenced, one number per word, such as ``metrics.logit_at``.

    Raises:
        ValueError: the model has no embedding under a hook.
    """
    require_hooks(model, EMBEDDING)
    kept: list[Tensor] = []

    def keep(x: Tensor, hook: object) -> Tensor:
        kept.append(x.detach().requires_grad_())
        return kept[-1]

    with torch.enable_grad():
        value = metric(model.run_with_hooks(tokens, fwd_hooks=[(EMBEDDING, keep)])).sum()
        (gradient,) = torch.autograd.grad(value, kept)
    return np.asarray(gradient.norm(dim=-1).cpu().numpy(), dtype=np.float64)


def decay(
    by_distance: Float[np.ndarray, "word distance"], seed: int = 0
) -> tuple[float, float, float, float]:
    """The fall of the logarithm of the mean influence with each symbol further back.

    A straight line is fitted to the log of the mean over words by least squares. Distance 0, the
    symbol that stands where the logit is read, is left out: it needs no step. Distances without
    any influence are left out too: the logarithm of 0 is infinite.

    Args:
        by_distance: influence of the symbol so many places back, from 0.
        seed: seed of the bootstrap over words.

    Returns:
        The rate in nats a symbol (0.7 halves the influence with each symbol; below 0 it grows), low
        and high (95%), and the share of the variance of the logarithms that the line explains. All
        are NaN if fewer than three distances are left; the share also where all are alike.
    """
    kept = np.flatnonzero((by_distance[:, 1:] > 0).any(axis=0)) + 1
    if len(kept) < 3:
        return (float("nan"),) * 4
    x = kept - kept.mean()

    def rate(sums: Float[np.ndarray, "*draws distance"]) -> Float[np.ndarray, "*draws"]:
        return np.asarray(-np.log(np.maximum(sums, 1e-300)) @ x / (x @ x))

    value, low, high = map(float, bootstrap_sums(by_distance[:, kept], rate, seed=seed))
    logs = np.log(by_distance[:, kept].mean(axis=0))
    rest, spread = logs - logs.mean() + value * x, logs - logs.mean()
    share = 1 - float(rest @ rest / (spread @ spread)) if spread @ spread > 1e-20 else float("nan")
    return value, low, high, share


@dataclass(frozen=True)
class Steps:
    """The numbers of steps in the graph of a forward pass.

    Attributes:
        path_length: number of steps from one position to another by which the first position
            reaches the last one, on the shortest way to the last layer; None if no way leads there.
            Steps from layer to layer at one position do not count: they are as many for all
            positions.
        sequential: the longest chain of nodes from the embeddings on, each of which is computed
            from the one before: so many steps cannot be done at the same time.
    """

    path_length: int | None
    sequential: int


def steps(model: HookedModel, tokens: Int[Tensor, " pos"]) -> Steps:
    """Path length between the ends of a word, and sequential steps, as in Vaswani et al. (2017,
    table 1), but counted in this model.

    Args:
        tokens: a word; what stands in it does not matter, but for influence that is 0 by chance.

    Raises:
        ValueError: see ``arrows``.
    """
    graph = arrows(model, tokens)
    ways: dict[Node, int] = {(-1, 0): 0}
    chains = dict.fromkeys(graph, 0)
    for node in sorted(graph):  # what a node is computed from stands in an earlier layer or place
        for source in graph[node]:
            chains[node] = max(chains[node], chains[source] + 1)
            if source in ways:
                way = ways[source] + (source[1] != node[1])
                ways[node] = min(ways.get(node, way), way)
    return Steps(ways.get(max(graph)), max(chains.values()))


def arrows(model: HookedModel, tokens: Int[Tensor, " pos"]) -> dict[Node, set[Node]]:
    """From which others each node is computed directly: where the Jacobian is not 0.

    The forward pass is cut at every node: what comes after it takes it for a constant of its own.
    A gradient then reaches no further than to the nodes that a node is computed from. The gradient
    of a random mix of a node's numbers is taken, which is 0 only if the Jacobian is.

    Returns:
        By node, (layer, position), the nodes that it is computed from; of an embedding none.

    Raises:
        ValueError: the model has no embedding, or no layer with a stream under a hook.
    """
    require_hooks(model, EMBEDDING, "blocks.0.hook_resid_post")
    seen: dict[str, list[tuple[Tensor, Tensor]]] = defaultdict(list)

    def cut(x: Tensor, hook: object, name: str) -> Tensor:
        leaf = x.detach().requires_grad_()
        seen[name].append((x, leaf))
        return leaf

    sites = {EMBEDDING: -1}
    sites |= {
        name: int(name.split(".")[1])
        for name in model.hook_dict
        if name.startswith("blocks.") and name.split(".", 2)[2] in STATES
    }
    hooks: list[tuple[str, Callable[..., Tensor]]] = [(n, partial(cut, name=n)) for n in sites]
    with torch.enable_grad():
        model.run_with_hooks(tokens[None], fwd_hooks=hooks)
    leaves = [(name, leaf) for name, calls in seen.items() for _, leaf in calls]
    places = range(len(tokens))
    graph: dict[Node, set[Node]] = {(n, at): set() for n in set(sites.values()) for at in places}
    generator = torch.Generator().manual_seed(0)
    for name, calls in seen.items():
        for number, (x, _) in enumerate(calls):
            if x.grad_fn is None:
                continue
            mix = torch.randn(x.shape[-1], generator=generator, dtype=x.dtype).to(x.device)
            # A layer that walks shows its newest state, and all before it, once a position.
            for at in places if len(calls) == 1 else (number,):
                node = sites[name], at
                gradients = torch.autograd.grad(
                    x[0, at] @ mix,
                    [leaf for _, leaf in leaves],
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
                for (source, _), gradient in zip(leaves, gradients, strict=True):
                    there = gradient[0].abs().sum(dim=-1).nonzero()[:, 0].tolist()
                    graph[node] |= {(sites[source], other) for other in there} - {node}
    return graph
