"""Circuits: the planted ones are found; faithfulness against plain hooks; curves, their areas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from planted import PLANTED
from test_transformer_lens import boot_native
from torch import Tensor

from interp.causal.metrics import logit_at
from interp.circuits.circuits import (
    Bench,
    Quality,
    _first_edges,
    areas,
    connected,
    curve,
    ranked,
    smallest,
)
from interp.circuits.controls import random_scores
from interp.circuits.effects import edge_effects
from interp.circuits.graph import Edge, Graph
from models.languages import END_ID
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]
END_LOGIT = logit_at(END_ID)


@pytest.fixture
def bench(small_model: Make) -> Bench:
    model = small_model(n_heads=2, positions="learned").double()
    clean = model.to_tokens(["abcab", "bbabb", "caabc"])
    return Bench(model, clean, model.to_tokens(["abaab", "bbabc", "ccbaa"]), END_LOGIT)


def scores_of(bench: Bench, method: str = "exact") -> dict[Edge, float]:
    table = edge_effects(bench.model, bench.clean, bench.corrupted, bench.metric, [method])
    means = table.groupby(["sender", "receiver"])["effect"].mean()
    return {Edge(*edge): value for edge, value in means.items()}


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_circuit_is_found_and_no_other_edge(name: str) -> None:
    planted = PLANTED[name]()
    bench = Bench(planted.model, *planted.pairs, planted.metric)
    found = smallest(bench, scores_of(bench), goal=0.999)
    assert set(found) == planted.edges
    whole = torch.tensor([[edge in planted.edges for edge in Graph.of(planted.model).edges]])
    assert bench.faithfulness(whole).mean() == pytest.approx(1, abs=1e-5)
    assert bench.faithfulness(~whole).mean() == pytest.approx(0, abs=1e-5)
    for edge in planted.edges:
        less = whole & torch.tensor([[each != edge for each in Graph.of(planted.model).edges]])
        assert bench.faithfulness(less).mean() < 0.9


def test_all_and_no_edge_are_the_two_runs(bench: Bench) -> None:
    graph = Graph.of(bench.model)
    ends = torch.tensor([[True], [False]]).expand(2, len(graph.edges))
    value = bench.measure(ends)
    for row, tokens in zip(value, (bench.clean, bench.corrupted), strict=True):
        torch.testing.assert_close(row, END_LOGIT(bench.model(tokens)), rtol=0, atol=1e-9)
    assert bench.faithfulness(ends).mean(axis=1) == pytest.approx([1, 0])


@pytest.mark.parametrize("ablation", ["zero", "mean", "resample"])
@pytest.mark.parametrize("part", ["L0H1", "L0 mlp", "embed"])
def test_without_all_edges_of_a_part_it_is_ablated(bench: Bench, ablation: str, part: str) -> None:
    """Against a plain hook on what the part writes."""
    model, graph = bench.model, Graph.of(bench.model)
    hook = {
        "L0H1": "blocks.0.attn.hook_result",
        "L0 mlp": "blocks.0.hook_mlp_out",
        "embed": "blocks.0.hook_resid_pre",
    }[part]
    _, cache = model.run_with_cache(bench.corrupted)

    def ablate(x: Tensor, hook: object) -> Tensor:
        instead = {
            "zero": torch.zeros_like(x),
            "mean": cache[hook.name].mean(dim=0, keepdim=True).expand_as(x),
            "resample": cache[hook.name],
        }[ablation]
        if part != "L0H1":
            return instead
        x = x.clone()
        x[:, :, 1] = instead[:, :, 1]
        return x

    expected = END_LOGIT(model.run_with_hooks(bench.clean, fwd_hooks=[(hook, ablate)]))
    circuit = torch.tensor([[edge.sender != part for edge in graph.edges]])
    found = Bench(model, bench.clean, bench.corrupted, END_LOGIT, ablation).measure(circuit)
    torch.testing.assert_close(found[0], expected.detach(), rtol=0, atol=1e-9)


def test_a_bridge_is_measured_alike(small_model: Make) -> None:
    model = small_model(positions="learned")
    pair = model.to_tokens(["aabbbc"]), model.to_tokens(["aacbbc"])
    ours, theirs = (Bench(m, *pair, END_LOGIT) for m in (model, boot_native(model)))
    order = ranked(scores_of(ours), Graph.of(model))
    circuits = _first_edges(order, [0, 10, 40, len(order)])
    assert theirs.faithfulness(circuits) == pytest.approx(ours.faithfulness(circuits), abs=1e-3)


@pytest.mark.slow
def test_a_small_circuit_keeps_what_was_asked(bench: Bench) -> None:
    graph = Graph.of(bench.model)
    sizes = []
    for goal in (0.5, 0.9, 0.99):
        found = smallest(bench, scores_of(bench), goal)
        sizes.append(len(found))
        inside = torch.tensor([[edge in found for edge in graph.edges]])
        assert abs(bench.faithfulness(inside).mean() - 1) <= 1 - goal
        assert found == [edge for edge in graph.edges if edge in found]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1] < len(graph.edges)


def test_edges_that_lead_nowhere_are_not_connected() -> None:
    ways = {Edge("embed", "L0H0.v"), Edge("L0H0", "L1H1.k"), Edge("L1H1", "logits")}
    dead = {Edge("L0H2", "L1H1.q"), Edge("embed", "L1H3.v"), Edge("L0 mlp", "logits")}
    assert connected(ways | dead) == ways
    assert connected(ways - {Edge("L1H1", "logits")}) == set()


def test_the_curve_begins_at_nothing_and_ends_at_all(bench: Bench) -> None:
    table = curve(bench, scores_of(bench))
    for _, rows in table.groupby("order"):
        assert rows["edges"].is_monotonic_increasing
        assert rows["faithfulness"].iloc[[0, -1]].to_numpy() == pytest.approx([0, 1])
        assert rows["share"].iloc[-1] == 1
    assert len(table["order"].unique()) == 2
    rows = table[table["order"] == "absolute"].set_index("edges")
    assert rows["completeness"].iloc[[0, -1]].to_numpy() == pytest.approx([0, 1])
    order = ranked(scores_of(bench), bench.graph)
    front = _first_edges(order, [8])
    assert rows.loc[8, "faithfulness"] == pytest.approx(bench.faithfulness(front).mean())
    assert rows.loc[8, "completeness"] == pytest.approx(1 - bench.faithfulness(~front).mean())


def test_the_areas_of_known_curves() -> None:
    share = np.array([0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.5, 1])
    rows = {"edges": (1000 * share).round().astype(int), "share": share, "completeness": 0.0}
    signed = pd.DataFrame({**rows, "order": "signed", "faithfulness": share})
    absolute = pd.DataFrame({**rows, "order": "absolute", "faithfulness": 2 - share})
    absolute.loc[absolute["edges"] == 150, "faithfulness"] = 99.0  # not among the fractions
    assert areas(pd.concat([signed, absolute])) == pytest.approx({"CPR": 0.5, "CMD": 0.5})


def test_the_ranking_and_its_fronts() -> None:
    graph = Graph(layers=1, heads=1, perceptrons=False)
    names = [str(edge) for edge in graph.edges]
    assert len(names) == 5
    scores = {graph.edges[0]: -3.0, graph.edges[2]: 2.0, graph.edges[4]: np.nan}
    assert ranked(scores, graph) == [0, 2, 1, 3, 4]
    assert ranked(scores, graph, absolute=False)[0] == 2
    assert ranked(scores, graph, absolute=False)[-1] == 0
    fronts = _first_edges(ranked(scores, graph), [0, 2, 5])
    assert fronts.tolist() == [[False] * 5, [True, False, True, False, False], [True] * 5]


@pytest.mark.slow
def test_a_circuits_quality_is_that_of_its_edges_and_of_all_others(bench: Bench) -> None:
    graph, circuit = bench.graph, smallest(bench, scores_of(bench), 0.9)
    found = Quality.on(bench, circuit)
    inside = torch.tensor([[edge in circuit for edge in graph.edges]])
    assert (found.edges, found.of) == (tuple(circuit), len(graph.edges))
    assert found.faithfulness == pytest.approx(bench.faithfulness(inside).mean())
    assert found.completeness == pytest.approx(1 - bench.faithfulness(~inside).mean())
    assert found.restored == pytest.approx(bench.restored(inside).mean())
    assert found.low <= found.faithfulness <= found.high
    assert found.pairs == len(bench.clean)
    everything = Quality.on(bench, graph.edges)
    values = everything.faithfulness, everything.completeness, everything.restored
    assert values == pytest.approx((1, 1, 1))


def test_random_scores_hang_on_the_seed_alone(bench: Bench) -> None:
    first, second = random_scores(bench.graph, 2, 0)
    assert set(first) == set(bench.graph.edges)
    assert first != second
    assert random_scores(bench.graph, 1, 0) == [first]
    assert random_scores(bench.graph, 1, 1) != [first]
