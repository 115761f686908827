"""Edges: planted truth, what patching says of whole rows and columns of edges, and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pandas as pd
import pytest
import torch
from planted import PLANTED
from test_transformer_lens import boot_native
from torch import Tensor

from interp.causal.metrics import logit_at
from interp.causal.patching import patch
from interp.circuits.edges import edge_metric, run_with_edges, writes
from interp.circuits.effects import Direction, edge_effects
from interp.circuits.graph import Edge, Graph
from interp.circuits.scores import agreement, by_edge, edge_scores
from models.choices import Counting
from models.languages import END_ID
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]
END_LOGIT = logit_at(END_ID)
COLUMNS = ["method", "direction", "sender", "receiver", "pair", "effect"]
KINDS: dict[str, dict[str, object]] = {
    "plain": {},
    "rotary, no bias": {"positions": "rotary", "bias": False},
    "rms, attention only": {"norm": "rms", "mlp": "none", "positions": "learned"},
    "no norm, gated": {"norm": "none", "mlp": "gated", "scores": "additive"},
    "strict": {"mask": "strictly_causal", "positions": "alibi"},
    "encoder": {"mask": "bidirectional", "positions": "t5"},
    "averaging": {"counting": Counting(averaging_heads=1, head_norm=True)},
    "counters": {"counting": Counting(averaging_heads=1, counters=True)},
    "identity": {"scores": "identity", "positions": "rotary"},
    "parallel": {"parallel": True, "qk_norm": "layer", "value_width": 3},
    "parallel, linear": {"parallel": True, "norm": "none", "scores": "linear", "mlp": "gated"},
}


@pytest.fixture(params=KINDS)
def model(small_model: Make, request: pytest.FixtureRequest) -> HookedTransformer:
    return small_model(n_heads=2, **KINDS[request.param]).double()


@pytest.fixture
def pairs(model: HookedTransformer) -> tuple[Tensor, Tensor]:
    return model.to_tokens(["abcab", "bbabb", "caabc"]), model.to_tokens(
        ["abaab", "bbabc", "ccbaa"]
    )


def replaced(graph: Graph, *some: Iterable[tuple[str, str]]) -> Tensor:
    """One copy per set of edges."""
    return torch.tensor([[float(edge in edges) for edge in graph.edges] for edges in some])


def test_the_edges_of_a_small_graph() -> None:
    graph = Graph(layers=2, heads=1, perceptrons=True)
    assert graph.senders == ("embed", "L0H0", "L0 mlp", "L1H0", "L1 mlp")
    slots = [("embed", f"L0H0.{slot}") for slot in "qkv"]
    slots += [("embed", "L0 mlp"), ("L0H0", "L0 mlp")]
    slots += [(s, f"L1H0.{slot}") for slot in "qkv" for s in graph.senders[:3]]
    slots += [(s, "L1 mlp") for s in graph.senders[:4]]
    slots += [(s, "logits") for s in graph.senders]
    assert list(graph.edges) == slots
    assert str(graph.edges[0]) == "embed -> L0H0.q"


@pytest.mark.parametrize("name", PLANTED)
def test_path_patching_finds_the_planted_edges_and_no_other(name: str) -> None:
    planted = PLANTED[name]()
    table = edge_effects(planted.model, *planted.pairs, planted.metric, ["exact"])
    size = table.groupby(["sender", "receiver"])["effect"].apply(lambda e: e.abs().max())
    found = {edge for edge, value in size.items() if value > 1e-5}
    assert found == planted.edges
    assert size[~size.index.isin(planted.edges)].max() == 0
    assert size[list(planted.edges)].min() > 0.5


def test_no_edge_replaced_and_all_replaced(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    clean, corrupted = pairs
    graph = Graph.of(model)
    shares = replaced(graph, (), graph.edges)
    with torch.no_grad():
        logits = run_with_edges(model, corrupted, writes(model, clean), shares)
        torch.testing.assert_close(logits[0], model(corrupted), rtol=0, atol=1e-9)
        torch.testing.assert_close(logits[1], model(clean), rtol=0, atol=1e-9)


def test_all_edges_from_a_sender_are_its_patch(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    clean, corrupted = pairs
    graph = Graph.of(model)
    shares = replaced(graph, *([e for e in graph.edges if e.sender == s] for s in graph.senders))
    found = edge_metric(model, corrupted, writes(model, clean), shares, END_LOGIT, memory=2**16)
    components = ["resid_pre", "z"] + ["mlp_out"] * graph.perceptrons
    table = patch(model, clean, corrupted, END_LOGIT, components, whole=True)
    names = {"resid_pre": "embed", "z": "L{}H{}", "mlp_out": "L{} mlp"}
    table["sender"] = [
        names[c].format(layer, head)
        for c, layer, head in table[["component", "layer", "head"]].itertuples(index=False)
    ]
    table = table[(table["component"] != "resid_pre") | (table["layer"] == 0)]
    expected = table.pivot(index="sender", columns="pair", values="patched")
    assert found.numpy() == pytest.approx(expected.loc[list(graph.senders)].to_numpy(), abs=1e-9)


def test_all_edges_into_a_receiver_are_its_patch(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    clean, corrupted = pairs
    graph = Graph.of(model)
    heads = [r for r in graph.receivers if "." in r]
    shares = replaced(graph, *([e for e in graph.edges if e.receiver == r] for r in heads))
    found = edge_metric(model, corrupted, writes(model, clean), shares, END_LOGIT)
    table = patch(model, clean, corrupted, END_LOGIT, ["q", "k", "v"], whole=True)
    table["receiver"] = [
        f"L{layer}H{head}.{c}"
        for c, layer, head in table[["component", "layer", "head"]].itertuples(index=False)
    ]
    expected = table.pivot(index="receiver", columns="pair", values="patched").loc[heads]
    assert found.numpy() == pytest.approx(expected.to_numpy(), abs=1e-9)


@pytest.mark.parametrize("direction", ["noising", "denoising"])
def test_attribution_is_the_derivative_of_the_effect(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor], direction: Direction
) -> None:
    """At the clean run where an edge of it is noised, at the corrupted run otherwise."""
    clean, corrupted = pairs
    tokens, others, sign = (
        (clean, corrupted, -1) if direction == "noising" else (corrupted, clean, 1)
    )
    source, step = writes(model, others), 1e-5
    edges = torch.eye(len(Graph.of(model).edges), dtype=torch.float64) * step
    more, less = (edge_metric(model, tokens, source, way * edges, END_LOGIT) for way in (1, -1))
    table = edge_effects(model, clean, corrupted, END_LOGIT, ["EAP"], [direction])
    assert (table["direction"] == direction).all()
    change = (table["effect"] * (table["clean"] - table["corrupted"])).to_numpy()
    expected = sign * ((more - less) / (2 * step)).flatten().numpy()
    assert change == pytest.approx(expected, abs=1e-6)
    assert np.abs(change).max() > 1e-2


@pytest.mark.parametrize("direction", ["noising", "denoising"])
def test_exact_effects_are_losses_or_gains_of_one_edge(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor], direction: Direction
) -> None:
    clean, corrupted = pairs
    table = edge_effects(model, clean, corrupted, END_LOGIT, ["exact"], [direction])
    graph = Graph.of(model)
    noising = direction == "noising"
    tokens, others = pairs if noising else (corrupted, clean)
    source = writes(model, others)
    with torch.no_grad():
        high, low = END_LOGIT(model(clean)), END_LOGIT(model(corrupted))
        for edge in graph.edges[:: len(graph.edges) // 5]:
            patched = run_with_edges(model, tokens, source, replaced(graph, [edge]))
            gain = END_LOGIT(patched)[0] - (high if noising else low)
            expected = (-gain if noising else gain) / (high - low)
            rows = table[(table["sender"] == edge.sender) & (table["receiver"] == edge.receiver)]
            assert rows["effect"].to_numpy() == pytest.approx(expected.numpy(), abs=1e-9)


def test_as_much_conductance_flows_into_a_part_as_out_of_it(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    """And into the logits, and out of the embedding, flows all of the difference: along the
    mixtures of the embeddings all that changes comes from them."""
    table = edge_effects(model, *pairs, END_LOGIT, ["conductance", "EAP-IG"], steps=300)
    of = {name: rows.reset_index() for name, rows in table.groupby("method")}
    rows = of["conductance"].assign(part=of["conductance"]["receiver"].str.split(".").str[0])
    into = rows.groupby(["part", "pair"])["effect"].sum().unstack()
    out = rows.groupby(["sender", "pair"])["effect"].sum().unstack()
    assert into.loc["logits"].to_numpy() == pytest.approx(np.ones(3), abs=2e-3)
    assert out.loc["embed"].to_numpy() == pytest.approx(np.ones(3), abs=2e-3)
    between = into.index.drop("logits")
    assert into.loc[between].to_numpy() == pytest.approx(out.loc[between].to_numpy(), abs=4e-3)
    first = rows["sender"] == "embed"  # the embedding changes evenly along the way
    straight = of["EAP-IG"].loc[first, "effect"].to_numpy()
    assert rows.loc[first, "effect"].to_numpy() == pytest.approx(straight, abs=1e-9)
    assert not np.allclose(rows["effect"], of["EAP-IG"]["effect"], atol=1e-2)
    few = edge_effects(model, *pairs, END_LOGIT, ["EAP-IG"], steps=2)
    assert not np.allclose(few["effect"], of["EAP-IG"]["effect"], atol=1e-3)


@pytest.mark.parametrize("model", ["plain", "counters", "parallel"], indirect=True)
def test_parts_of_the_words_and_of_the_way_say_the_same(
    model: HookedTransformer, pairs: tuple[Tensor, Tensor]
) -> None:
    """With hardly any memory each word and each step is run alone."""
    methods = ["exact", "EAP", "GIM", "EAP-IG", "conductance"]
    metric = logit_at(END_ID, torch.tensor([5, 4, 5]))
    whole, parts = (
        edge_effects(model, *pairs, metric, methods, steps=3, memory=memory)
        for memory in (2**28, 1)
    )
    np.testing.assert_allclose(parts["effect"], whole["effect"], rtol=1e-6, atol=1e-9)


def test_agreement_is_the_correlation_of_the_means() -> None:
    names = [("embed", "logits"), ("embed", "L0 mlp"), ("L0 mlp", "logits")]
    rows = [
        [method, direction, *edge, pair, value + shift]
        for method, direction, values in (
            ("exact", "noising", (0.0, 1.0, 3.0)),
            ("exact", "denoising", (1.0, 2.0, 0.0)),
            ("EAP", "noising", (1.0, 2.0, 0.0)),
            ("EAP-IG", "both", (1.0, 2.0, 0.0)),
        )
        for edge, value in zip(names, values, strict=True)
        for pair, shift in ((0, -1.0), (1, 1.0))
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    row, integrated, other = agreement(table).to_dict("records")
    assert (row["direction"], row["method"]) == ("noising", "EAP")
    assert integrated["pearson"] == row["pearson"]
    assert (other["direction"], other["method"]) == ("denoising", "EAP-IG")
    assert (other["pearson"], other["mean_error"]) == pytest.approx((1, 0))
    assert row["edges"] == 3
    assert row["pearson"] == pytest.approx(np.corrcoef([0, 1, 3], [1, 2, 0])[0, 1])
    assert row["spearman"] == pytest.approx(-0.5)
    assert row["mean_error"] == pytest.approx(5 / 3)


def test_a_stream_of_large_parts_that_cancel_is_a_sum(small_model: Make) -> None:
    """The second MLP takes away what the first one wrote, but for rounding."""
    model = small_model()
    with torch.no_grad():
        for sign, block in zip((1, -1), model.blocks, strict=True):
            block.mlp.b_out.copy_(torch.full((16,), sign * 1e6))
    writes(model, model.to_tokens(["abc"]))


def test_a_stream_that_is_not_finite_is_no_matter_of_norms(small_model: Make) -> None:
    model = small_model()
    with torch.no_grad():
        model.W_E[2] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        writes(model, model.to_tokens(["abc"]))


@pytest.mark.parametrize("placement", ["post", "sandwich"])
def test_a_stream_that_is_no_sum_is_refused(small_model: Make, placement: str) -> None:
    model = small_model(norm_placement=placement)
    with pytest.raises(ValueError, match="or other norms than pre-norm"):
        writes(model, model.to_tokens(["abc"]))


@pytest.mark.slow
def test_a_bridge_says_the_same(small_model: Make) -> None:
    model = small_model(positions="learned")
    bridge = boot_native(model)
    clean, corrupted = model.to_tokens(["aabbbc"]), model.to_tokens(["aacbbc"])
    ours = edge_effects(model, clean, corrupted, END_LOGIT)
    theirs = edge_effects(bridge, clean, corrupted, END_LOGIT)
    assert theirs["effect"].to_numpy() == pytest.approx(ours["effect"].to_numpy(), abs=1e-3)


def effects_by_hand() -> pd.DataFrame:
    """Two edges and three pairs, of which the model does not tell the last apart."""
    effects = {("embed", "L0 mlp"): [0.0, 0.5, np.nan], ("embed", "logits"): [1.0, 0.5, np.nan]}
    rows = [
        dict(zip(COLUMNS, [method, "noising", s, r, pair, factor * value], strict=True))
        for method, factor in (("exact", 1), ("EAP", 2))
        for (s, r), values in effects.items()
        for pair, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_scores_of_edges_are_means_over_the_pairs_told_apart() -> None:
    scores = edge_scores(effects_by_hand())
    assert scores["exact, noising"] == {
        Edge("embed", "L0 mlp"): 0.25,
        Edge("embed", "logits"): 0.75,
    }
    assert scores["EAP, noising"] == {Edge("embed", "L0 mlp"): 0.5, Edge("embed", "logits"): 1.5}


def test_an_edges_row_has_its_effect_its_interval_and_whether_it_is_in_the_circuit() -> None:
    rows = by_edge(effects_by_hand(), [Edge("embed", "logits")]).set_index("receiver")
    assert rows["circuit"].to_dict() == {"L0 mlp": False, "logits": True}
    assert rows["EAP"].tolist() == [0.5, 1.5]
    assert (rows["direction"] == "noising").all()
    assert (rows["low"] < rows["exact"]).all()
    assert (rows["exact"] < rows["high"]).all()
    untold = effects_by_hand()
    untold["effect"] = np.nan
    assert by_edge(untold)[["low", "high"]].isna().all(axis=None)
