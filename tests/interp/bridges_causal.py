"""The causal lenses on a bridge, against the plain model changed by hand. Used by test_bridges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bridges import HEADS, WIDTH, Change, Pair, words
from paths import edge_run
from paths import writes as written
from torch import Tensor

from interp.causal.ablation import ablate, donors
from interp.causal.alignment import Cases, exchanged
from interp.causal.metrics import logit_difference_at
from interp.causal.patching import patch
from interp.causal.sites import Site, all_sites
from interp.circuits.circuits import Bench, Quality, connected
from interp.circuits.effects import edge_effects
from interp.circuits.graph import Graph
from interp.model import activations
from interp.probing.steering import adding

METRIC = logit_difference_at(1, 3)
EVERY = 5
"""The step through sites and edges done by hand. It leaves out no layer, head or position."""
STREAM = ["resid_pre", "resid_post", "attn_out", "mlp_out"]
CLOSE = {"abs": 1e-5, "rel": 1e-5}
"""``transformers`` computes norms, rotations and softmax in float32, whatever the model is in."""


def put(x: Tensor, site: Site) -> Change:
    """Replaces one site by what x holds there."""
    unit = site.neuron if site.head is None else site.head
    where = (slice(None), site.position) + (() if unit is None else (unit,))

    def change(old: Tensor) -> None:
        old[where] = x[where]

    return change


def look(models: Pair, clean: Tensor, corrupted: Tensor, site: Site) -> Change:
    """Replaces one entry of a pattern: the output changes by the difference times the value."""
    then, now = (models.plain.patterns(t)[site.layer] for t in (clean, corrupted))
    v = models.plain.reading(corrupted, ("v", site.layer))["v", site.layer]
    v = v.repeat_interleave(HEADS // v.shape[2], dim=2)
    where = (slice(None), site.head, site.position, site.key)

    def change(z: Tensor) -> None:
        moved = (then[where] - now[where])[:, None] * v[:, site.key, site.head]
        z[:, site.position, site.head] += moved

    return change


def sites_of(models: Pair, components: list[str], length: int) -> list[Site]:
    return [site for c in components for site in all_sites(models.bridge, c, length)]


def patching(models: Pair) -> None:
    _patched(models, [*STREAM, "neuron"])


def patching_inside_attention(models: Pair) -> None:
    _patched(models, [*"qkvz", "pattern"], EVERY)


def _patched(models: Pair, components: list[str], every: int = 1) -> None:
    clean, corrupted = words()
    table = patch(models.bridge, clean, corrupted, METRIC, components)
    places = {(s.component, s.layer) for s in sites_of(models, components, 4)}
    source = models.plain.reading(clean, *(p for p in places if p[0] != "pattern"))
    expected = list[list[float]]()
    for site in sites_of(models, components, 4)[::every]:
        if site.component == "pattern":
            changes = {("z", site.layer): look(models, clean, corrupted, site)}
        else:
            place = site.component, site.layer
            changes = {place: put(source[place], site)}
        expected.append(METRIC(models.plain.run(corrupted, changes)).tolist())
    found = table["patched"].to_numpy().reshape(-1, len(clean))[::every]
    assert found == pytest.approx(np.array(expected), **CLOSE)
    moved = (table["patched"] - table["corrupted"]).abs().groupby(table["component"]).max()
    assert (moved > 1e-3).all()


def mid_stream(models: Pair) -> None:
    patch(models.bridge, *words(), METRIC, ["resid_mid"])


def paths(models: Pair) -> None:
    """Edges alone, and the two approximations of every edge by a gradient through the shares."""
    clean, corrupted = words()
    methods = ("exact", "EAP", "EAP-IG")
    table = edge_effects(models.bridge, clean, corrupted, METRIC, methods, ["denoising"], steps=2)
    graph, plain = Graph.of(models.bridge), models.plain
    source, target = written(plain, clean), written(plain, corrupted)
    some = torch.eye(len(graph.edges))[:, :, None].expand(-1, -1, len(clean)).double()
    exact = [METRIC(edge_run(plain, graph, corrupted, source, s)) for s in some[::EVERY]]
    change, slopes = source - target, list[Tensor]()
    for step in (0.0, 0.25, 0.75):
        share = torch.zeros_like(some[0], requires_grad=True)
        start = target[0] + step * change[0]
        value = METRIC(edge_run(plain, graph, corrupted, source, share, start, change))
        slopes += torch.autograd.grad(value.sum(), share)
    at_corrupted = METRIC(plain(corrupted))
    apart = METRIC(plain(clean)) - at_corrupted
    truth = {
        "exact": torch.stack(exact) - at_corrupted,
        "EAP": slopes[0],
        "EAP-IG": (slopes[1] + slopes[2]) / 2,
    }
    for method, expected in truth.items():
        rows = table[table["method"] == method]
        found = rows.pivot(index=["sender", "receiver"], columns="pair", values="effect")
        found = found.loc[list(graph.edges)].to_numpy() * apart.numpy()
        found = found[::EVERY] if method == "exact" else found
        assert found == pytest.approx(expected.numpy(), **CLOSE)
        assert np.abs(found).max() > 1e-2


def circuits(models: Pair) -> None:
    clean, corrupted = words()
    bench = Bench(models.bridge, clean, corrupted, METRIC)
    graph, rng = bench.graph, np.random.default_rng(0)
    inside = torch.as_tensor(rng.random(len(graph.edges)) < 0.5)
    chosen = [edge for edge, kept in zip(graph.edges, inside, strict=True) if kept]
    source = written(models.plain, corrupted)
    shares = (~inside).double()[:, None].expand(-1, len(clean))
    own, nothing, everything = (
        METRIC(edge_run(models.plain, graph, clean, source, share)).mean()
        for share in (shares, torch.ones_like(shares), torch.zeros_like(shares))
    )
    found = Quality.on(bench, chosen)
    expected = (own - nothing) / (everything - nothing)
    assert found.faithfulness == pytest.approx(float(expected), **CLOSE)
    assert connected(graph.edges) == set(graph.edges)
    for end, tokens in zip(bench.ends, (corrupted, clean), strict=True):
        assert end.numpy() == pytest.approx(METRIC(models.plain(tokens)).numpy(), **CLOSE)


def ablation(models: Pair) -> None:
    tokens, _ = words()
    mask = torch.ones_like(tokens, dtype=torch.bool)
    for method in ("zero", "mean", "resample"):
        table = ablate(models.bridge, tokens, mask, METRIC, method)
        for (layer, head), rows in table.groupby(["layer", "head"]):
            z = models.plain.reading(tokens, ("z", layer))["z", layer][:, :, head]
            instead = {"zero": 0 * z, "mean": z.mean(dim=(0, 1)).expand_as(z)}
            instead["resample"] = z[torch.as_tensor(donors(tokens, mask, 0))]

            def change(x: Tensor, head=head, new=instead[method]) -> None:
                x[:, :, head] = new

            after = METRIC(models.plain.run(tokens, {("z", layer): change}))
            assert rows["after"].to_numpy() == pytest.approx(after.numpy(), **CLOSE)
        assert (table["after"] - table["before"]).abs().max() > 1e-2


def activations_for_probes(models: Pair) -> None:
    tokens, _ = words()
    found = activations(models.bridge, tokens, ["blocks.0.hook_resid_post", "blocks.1.attn.hook_z"])
    expected = models.plain.reading(tokens, ("resid_post", 0), ("z", 1))
    for ours, theirs in zip(found.values(), expected.values(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def steering(models: Pair) -> None:
    tokens, _ = words()
    direction, amount = torch.arange(WIDTH) / WIDTH, torch.arange(4).expand(3, -1) / 2
    hook = ("blocks.1.hook_resid_pre", adding(direction.double(), amount.double()))
    logits = models.bridge.run_with_hooks(tokens, fwd_hooks=[hook])

    def change(x: Tensor) -> None:
        x += amount[..., None] * direction

    expected = models.plain.run(tokens, {("resid_pre", 1): change})
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


def das(models: Pair) -> None:
    """The rows that need no training: nothing exchanged, and all of the activation."""
    base, source = words(12)[0], words(12, seed=1)[0]
    at = torch.tensor([3, 2, 1] * 4)
    rows, hook = torch.arange(12), "blocks.1.hook_resid_pre"
    target = models.plain(source)[rows, at].argmax(dim=1)
    answers = torch.arange(models.bridge.cfg.d_vocab)
    right, to = target[:, None] == answers, at[:, None]
    cases = Cases.exchange(base, source, to, to, at, right, answers, alone=False)
    table = exchanged(models.bridge, [hook], cases, {"test": cases}).set_index("method")["value"]
    x = models.plain.reading(source, ("resid_pre", 1))["resid_pre", 1]

    def change(old: Tensor) -> None:
        old[rows, at] = x[rows, at]

    for method, changes in (("none", {}), ("whole activation", {("resid_pre", 1): change})):
        best = models.plain.run(base, changes)[rows, at].argmax(dim=1)
        assert table[method] == pytest.approx(float((best == target).double().mean()))
