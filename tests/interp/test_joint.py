"""What single effects cannot show, pairs show: two planted heads, each enough, or both needed.

In each network some tools rank the planted edges first, and for the others a pair says what they
miss.
"""

from __future__ import annotations

from typing import get_args

import numpy as np
import pandas as pd
import pytest
import torch
from planted import PLANTED, TOGETHER, Planted

from interp.circuits.circuits import Bench, Quality, ranked, smallest
from interp.circuits.effects import DIRECTIONS, METHODS, Direction, edge_effects, stability
from interp.circuits.graph import Edge
from interp.circuits.joint import _kind_of_pair, blind_spots, pair_effects
from interp.circuits.needs import incompleteness, knock_outs
from interp.circuits.scores import edge_scores


def bench_of(planted: Planted) -> Bench:
    return Bench(planted.model, *planted.pairs, planted.metric)


def first_of(planted: Planted, ranking: str) -> set[tuple[str, str]]:
    """As many edges as were planted, those of the largest scores."""
    bench = bench_of(planted)
    table = edge_effects(
        bench.model, bench.clean, bench.corrupted, bench.metric, METHODS, DIRECTIONS
    )
    order = ranked(edge_scores(table)[ranking], bench.graph)
    return {bench.graph.edges[index] for index in order[: len(planted.edges)]}


@pytest.mark.parametrize("name", [*PLANTED, "both"])
def test_the_ranking_in_the_benchs_direction_puts_planted_edges_first(name: str) -> None:
    planted = (PLANTED | TOGETHER)[name]()
    assert first_of(planted, "exact, noising") == planted.edges


@pytest.mark.parametrize(
    ("name", "blind", "kind"),
    [("either", "noising", "redundancy"), ("both", "denoising", "conjunction")],
)
def test_what_one_direction_misses_the_other_and_a_pair_show(
    name: str, blind: Direction, kind: str
) -> None:
    planted = TOGETHER[name]()
    (seeing,) = set(get_args(Direction)) - {blind}
    assert len(first_of(planted, f"exact, {blind}") & planted.edges) == 1
    assert first_of(planted, f"exact, {seeing}") == planted.edges
    table = pair_effects(bench_of(planted))
    (spot,) = blind_spots(table, table).to_dict("records")
    assert (spot["kind"], spot["direction"]) == (kind, blind)
    assert (spot["first"], spot["second"]) == ("L0H1", "L0H2")
    alone = spot["alone_first"], spot["alone_second"]
    assert (*alone, spot["together"], spot["interaction"]) == pytest.approx((0, 0, 1, 1), abs=1e-5)


@pytest.mark.parametrize("name", TOGETHER)
@pytest.mark.parametrize("method", ["EAP-IG", "conductance"])
def test_gradients_on_the_whole_way_find_both_heads(name: str, method: str) -> None:
    planted = TOGETHER[name]()
    assert first_of(planted, method) == planted.edges


@pytest.mark.parametrize("name", PLANTED)
def test_no_pair_is_named_where_single_effects_say_all(name: str) -> None:
    table = pair_effects(bench_of(PLANTED[name]()))
    assert blind_spots(table, table).empty


def test_what_pairs_do_together_is_their_knock_out_and_their_restoration() -> None:
    """Against plain hooks on what the two heads and the MLP write."""
    planted = TOGETHER["either"]()
    clean, corrupted = planted.pairs
    metric, model, hook = planted.metric, planted.model, "blocks.0.attn.hook_z"
    with torch.no_grad():
        ends = [metric(model(tokens)) for tokens in planted.pairs]
        runs = {"noising": (clean, corrupted), "denoising": (corrupted, clean)}
        for direction, (tokens, others) in runs.items():
            _, cache = model.run_with_cache(others)

            def patch(z: torch.Tensor, hook: object, other: torch.Tensor = cache[hook]):
                z = z.clone()
                z[:, :, 1:3] = other[:, :, 1:3]
                return z

            changed = metric(model.run_with_hooks(tokens, fwd_hooks=[(hook, patch)]))
            start = ends[0] if direction == "noising" else ends[1]
            share = ((changed - start).abs() / (ends[0] - ends[1])).mean()
            table = pair_effects(bench_of(planted)).query("direction == @direction")
            row = table.set_index(["first", "second"]).loc[("L0H1", "L0H2")]
            assert row["together"] == pytest.approx(share.item(), abs=1e-6)


def test_a_redundant_heads_edges_cost_the_circuit_all_and_the_model_nothing() -> None:
    planted = TOGETHER["either"]()
    bench = bench_of(planted)
    table = edge_effects(bench.model, bench.clean, bench.corrupted, bench.metric, ["exact"])
    circuit = smallest(bench, edge_scores(table)["exact, noising"], 0.99)
    assert len(circuit) == 3
    rows = knock_outs(bench, circuit).set_index(["sender", "receiver"])
    assert rows["circuit"].tolist() == pytest.approx([1, 1, 1], abs=1e-5)
    assert rows["model"].tolist() == pytest.approx([0, 0, 1], abs=1e-5)
    assert incompleteness(bench, circuit)["gap"].max() == pytest.approx(1, abs=1e-5)
    everything = [Edge(*edge) for edge in sorted(planted.edges)]
    assert incompleteness(bench, everything)["gap"].max() == pytest.approx(0, abs=1e-5)
    quality = Quality.on(bench, circuit)
    values = quality.faithfulness, quality.completeness, quality.restored
    assert values == pytest.approx((1, 1, 1), abs=1e-5)


def test_incompleteness_is_the_gap_of_the_circuit_and_the_model_without_the_same_edges() -> None:
    planted = TOGETHER["both"]()
    bench, circuit = bench_of(planted), [Edge("L0H1", "L0 mlp"), Edge("L0 mlp", "logits")]
    rows = incompleteness(bench, circuit, draws=3)
    assert rows["edges"].tolist() == [1, 1, 1, 1, 1]
    edges = bench.graph.edges
    for edge, row in zip(circuit, rows.to_dict("records"), strict=False):
        for name, kept in (("circuit", set(circuit) - {edge}), ("model", set(edges) - {edge})):
            inside = torch.tensor([[each in kept for each in edges]])
            assert row[name] == pytest.approx(bench.faithfulness(inside).mean())
        assert row["gap"] == abs(row["circuit"] - row["model"])


@pytest.mark.parametrize(
    ("alone", "together", "direction", "kind"),
    [
        ((0.05, -0.05), 0.5, "noising", "redundancy"),
        ((0.05, 0.0), 0.9, "denoising", "conjunction"),
        ((0.05, 0.2), 0.9, "denoising", None),
        ((0.05, 0.05), 0.4, "noising", None),
        ((0.9, -0.8), 0.05, "noising", "cancelling"),
        ((0.9, 0.8), 1.0, "denoising", None),
    ],
)
def test_the_kinds_of_pairs(
    alone: tuple[float, float], together: float, direction: str, kind: str | None
) -> None:
    row = {"alone_first": alone[0], "alone_second": alone[1], "together": together}
    assert _kind_of_pair(row | {"direction": direction}) == kind


def test_a_pair_is_named_only_if_both_halves_of_the_words_agree() -> None:
    row = {"direction": "noising", "alone_first": 0.0, "alone_second": 0.0, "interaction": 0.9}
    seen, held_out = (pd.DataFrame([row | {"together": much}]) for much in (0.9, 0.1))
    assert blind_spots(seen, held_out).empty
    assert blind_spots(held_out, seen).empty
    assert blind_spots(seen, seen)["kind"].tolist() == ["redundancy"]


def test_stability_is_the_worst_share_of_the_best_scores() -> None:
    fine = np.array([4.0, -3.0, 2.0, 0.0])
    assert stability(fine / 2, fine) == 1
    assert stability(np.array([0.1, 3.0, 2.0, 0.2]), fine) == pytest.approx(5 / 9)
    assert stability(np.array([5.0, 4.0, 0.1, 0.2]), fine) == pytest.approx(7 / 9)
    assert stability(np.zeros(4), np.zeros(4)) == 1
