"""Controls of a circuit: random edges that are as well connected, and read in the same places.

Most sets of edges drawn one by one hold no way from the embedding to the logits. They carry
nothing, and any circuit beats them. Here every set is connected: each of its edges lies on such a
way inside the set. And it has as many edges into queries, keys, values, MLPs and the logits as the
circuit that it stands beside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from interp.circuits.graph import Edge, Graph, parts_of

TRIES = 200
"""The number of times that a set is begun again when no edge fits any more."""


def _kind(edge: Edge) -> str:
    """The kind of an edge's end: "q", "k", "v", "mlp" or "logits"."""
    return edge.receiver.replace(" ", ".").split(".")[-1]


def random_circuits(
    graph: Graph, circuit: Collection[Edge], draws: int, seed: int
) -> Bool[Tensor, "draw edge"]:
    """Sets of edges drawn at random: connected, and by kind of receiver as many as in a circuit.

    Returns:
        True for the edges inside, in the order of ``Graph.edges``.

    Raises:
        ValueError: no such set was found, as where the circuit itself is not connected.
    """
    rng, wanted = np.random.default_rng(seed), Counter(map(_kind, circuit))
    sets = [set(_grown(graph, rng, wanted)) for _ in range(draws)]
    return torch.tensor([[edge in drawn for edge in graph.edges] for drawn in sets])


def random_scores(graph: Graph, draws: int, seed: int) -> list[dict[Edge, float]]:
    """The control of every ranking: scores by which random connected sets of edges grow.

    An edge is drawn at random. What it lacks to be on a way from the embedding to the logits is
    drawn with it, and comes right before or after it in the ranking.
    """
    rng, size = np.random.default_rng(seed), len(graph.edges)
    every = Counter(map(_kind, graph.edges))
    grown = (_grown(graph, rng, every) for _ in range(draws))
    return [{edge: 1 - place / size for place, edge in enumerate(order)} for order in grown]


def _grown(graph: Graph, rng: np.random.Generator, wanted: Counter[str]) -> list[Edge]:
    """Edges in the order in which they are drawn, until there are as many of each kind."""
    into, out = defaultdict[str, list[Edge]](list), defaultdict[str, list[Edge]](list)
    edges = [edge for edge in graph.edges if wanted[_kind(edge)]]
    for edge in edges:
        for part in parts_of(edge.receiver):
            into[part].append(edge)
        out[edge.sender].append(edge)
    for _ in range(TRIES):
        chosen, written, read = dict[Edge, None](), {"embed"}, {"logits"}
        left = wanted.copy()
        for index in rng.permutation(len(edges)):
            if edges[index] in chosen:
                continue
            more = [edges[index]]
            while (sender := more[0].sender) not in written and into[sender]:
                more.insert(0, into[sender][rng.integers(len(into[sender]))])
            on = more
            while on and read.isdisjoint(parts := parts_of(more[-1].receiver)):
                if on := [edge for part in parts for edge in out[part]]:
                    more.append(on[rng.integers(len(on))])
            kinds = Counter(map(_kind, more))
            if on and more[0].sender in written and kinds <= left:
                left -= kinds
                chosen |= dict.fromkeys(more)
                written |= {part for edge in more for part in parts_of(edge.receiver)}
                read |= {edge.sender for edge in more}
        if not left.total():
            return list(chosen)
    raise ValueError(
        f"no connected set of edges has {dict(wanted)} by kind of receiver: give a circuit whose "
        "edges all lie on ways from the embedding to the logits"
    )
