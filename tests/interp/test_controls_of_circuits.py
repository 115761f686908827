"""Random circuits are connected and read in the same places; random rankings grow connected."""

from __future__ import annotations

from collections import Counter

import pytest
from planted import PLANTED, TOGETHER

from interp.circuits.circuits import connected, ranked
from interp.circuits.controls import _kind, random_circuits, random_scores
from interp.circuits.graph import Edge, Graph

GRAPH = Graph(layers=2, heads=4, perceptrons=True)


def test_the_kinds_of_receivers() -> None:
    ends = {"L0H1.q": "q", "L1H3.v": "v", "L1 mlp": "mlp", "logits": "logits"}
    assert {end: _kind(Edge("embed", end)) for end in ends} == ends


@pytest.mark.parametrize("name", [*PLANTED, *TOGETHER])
def test_random_circuits_are_connected_and_of_the_same_kinds(name: str) -> None:
    circuit = [Edge(*edge) for edge in sorted((PLANTED | TOGETHER)[name]().edges)]
    drawn = random_circuits(GRAPH, circuit, 20, seed=0)
    sets = [{e for e, inside in zip(GRAPH.edges, row, strict=True) if inside} for row in drawn]
    for some in sets:
        assert connected(some) == some
        assert Counter(map(_kind, some)) == Counter(map(_kind, circuit))
    assert len({frozenset(some) for some in sets}) > 5
    assert (random_circuits(GRAPH, circuit, 20, seed=0) == drawn).all()
    assert (random_circuits(GRAPH, circuit, 20, seed=1) != drawn).any()


def test_all_edges_of_some_kinds_are_the_only_set_of_them() -> None:
    """A network after one step of training: attention that is even needs no queries and keys."""
    circuit = [edge for edge in GRAPH.edges if _kind(edge) in ("v", "mlp", "logits")]
    drawn = random_circuits(GRAPH, circuit, 3, seed=0)
    assert drawn.tolist() == 3 * [[edge in circuit for edge in GRAPH.edges]]


def test_kinds_that_no_connected_set_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no connected set of edges has .*'q': 2"):
        random_circuits(GRAPH, [Edge("embed", "L0H0.q"), Edge("embed", "L0H1.q")], 1, seed=0)


def test_random_rankings_grow_by_connected_sets() -> None:
    """But for the few edges that wait for the rest of their way."""
    for scores in random_scores(GRAPH, 5, seed=0):
        assert set(scores) == set(GRAPH.edges)
        order = [GRAPH.edges[index] for index in ranked(scores, GRAPH)]
        for size in (10, 20, 40, 80):
            assert len(connected(order[:size])) >= size - 3
