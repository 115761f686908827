"""The lenses on heads of a bridge, against the plain model read by hand. Used by test_bridges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from bridges import HEADS, LAYERS, VOCABULARY, Pair, words
from bridges_causal import CLOSE, METRIC
from paths import writes as written
from torch import Tensor

from interp.circuits.graph import Graph
from interp.heads.attention import attention
from interp.heads.attention_and_effect import attention_and_effect
from interp.heads.logit_attribution import direct_by_position, direct_logit_attribution
from interp.heads.qk_and_ov import ov_circuit, qk_circuit
from interp.heads.rollout_and_flow import rollout
from interp.heads.types import head_types


def types_of_heads(models: Pair) -> None:
    """The share of the attention on BOS, and the patterns that all types are read off."""
    tokens, _ = words()
    patterns, may = attention(models.bridge, tokens)
    expected = models.plain.patterns(tokens)
    torch.testing.assert_close(patterns, expected, rtol=0, atol=1e-6)
    assert torch.equal(may, torch.ones_like(may).tril())
    table = head_types(models.bridge, tokens, torch.ones_like(tokens, dtype=torch.bool))
    bos = table[table["type"] == "BOS"].set_index(["layer", "word", "head"])["score"].sort_index()
    by_hand = expected[:, :, :, 1:, 0].mean(dim=-1).flatten().numpy()
    assert bos.to_numpy() == pytest.approx(by_hand, abs=1e-6)


def looks_and_effects(models: Pair) -> None:
    """A head's value alone is replaced, also where other heads share it."""
    _, changed = words(2)
    word = words()[0][2]
    table = attention_and_effect(models.bridge, word, changed, METRIC, 3)
    plain, tokens = models.plain, word.expand(2, -1)
    before = METRIC(plain(tokens))
    for row in table[table["head"] >= 0].itertuples():
        looks = plain.patterns(tokens)[row.layer, :, row.head, :, row.position]
        new, old = (plain.reading(t, ("v", row.layer))["v", row.layer] for t in (changed, tokens))
        moved = (new - old).repeat_interleave(HEADS // new.shape[2], dim=2)

        def change(z: Tensor, row=row, looks=looks, moved=moved) -> None:
            z[:, :, row.head] += looks[..., None] * moved[:, row.position, row.head][:, None]

        after = METRIC(plain.run(tokens, {("z", row.layer): change}))
        assert row.effect == pytest.approx(float((after - before).abs().mean()), **CLOSE)
        assert row.attention == pytest.approx(float(looks[0, 3]), abs=1e-6)
    assert table["effect"].max() > 1e-2


def rolled_out(models: Pair) -> None:
    word = words()[0][:1]
    expected = torch.eye(4).double()
    for pattern in models.plain.patterns(word)[:, 0].double():
        expected = (pattern.mean(dim=0) + torch.eye(4)) / 2 @ expected
    found = rollout(attention(models.bridge, word)[0][:, 0].double())
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def to_logit(models: Pair, stream: Tensor, vectors: Tensor, token: int) -> Tensor:
    """What vectors add to a logit if the final norm keeps the scale that it has for the stream."""
    norm = models.plain.final
    bias = getattr(norm, "bias", None)

    def centred(x: Tensor) -> Tensor:
        return x if bias is None else x - x.mean(dim=-1, keepdim=True)

    with torch.no_grad():
        plain = norm(stream) if bias is None else norm(stream) - bias
    scale = (plain / norm.weight / centred(stream)).mean(dim=-1, keepdim=True)
    return (centred(vectors) * scale * norm.weight) @ models.plain.W_U[:, token]


def attribution(models: Pair) -> None:
    tokens, _ = words()
    at, token, rows = torch.tensor([3, 1, 2]), 2, torch.arange(3)
    table = direct_logit_attribution(models.bridge, tokens, at, token)
    logit = models.plain(tokens)[rows, at, token]
    total = table.groupby("word")["value"].sum().to_numpy()
    assert total == pytest.approx(logit.numpy(), abs=1e-5)
    place = ("resid_post", LAYERS - 1)
    last = models.plain.reading(tokens, place)[place][rows, at]
    names = Graph.of(models.bridge).senders
    parts = table.pivot(index="part", columns="word", values="value").loc[list(names)]
    by_hand = to_logit(models, last, written(models.plain, tokens)[:, rows, at], token)
    assert parts.to_numpy() == pytest.approx(by_hand.numpy(), abs=1e-5)
    assert parts.abs().max().max() > 0.1


def attribution_by_position(models: Pair) -> None:
    word, at, token = words()[0][:1], 3, 2
    found = direct_by_position(models.bridge, word[0], at, token)
    plain, pattern = models.plain, models.plain.patterns(word)[:, 0]
    read = plain.reading(word, ("resid_pre", 0), ("resid_post", LAYERS - 1), ("v", 0), ("v", 1))
    vectors = torch.zeros_like(read["resid_pre", 0][0])
    vectors[at] = read["resid_pre", 0][0, at]
    for layer in range(LAYERS):
        v = read["v", layer][0]
        v = v.repeat_interleave(HEADS // v.shape[1], dim=1)  # [key, head, d_head]
        seen = pattern[layer, :, at].T[..., None] * v
        vectors += torch.einsum("khd,hdm->km", seen, plain.W_O(layer))
    last = read["resid_post", LAYERS - 1][0, at]
    assert found == pytest.approx(to_logit(models, last, vectors, token).numpy(), abs=1e-5)
    assert np.abs(found).max() > 0.1


def scores(models: Pair) -> Tensor:
    """The score of the key at position 0 less that of the query's own, at position 1, in the first
    layer: [head, query, key]."""
    symbols = torch.arange(VOCABULARY)
    query, key = (grid.flatten() for grid in torch.meshgrid(symbols, symbols, indexing="ij"))
    pattern = models.plain.patterns(torch.stack([key, query], dim=1))[0, :, :, 1].log()
    return (pattern[..., 0] - pattern[..., 1]).T.unflatten(1, (VOCABULARY, VOCABULARY))


def qk_by_weights(models: Pair) -> None:
    for head, expected in enumerate(scores(models)):
        found = qk_circuit(models.bridge, 0, head)
        gain = found - found.diagonal()[:, None]
        torch.testing.assert_close(gain, expected, rtol=0, atol=1e-4, check_dtype=False)
    assert found.std() > 1e-2


def qk_at_a_distance(models: Pair) -> None:
    for head, expected in enumerate(scores(models)):
        one, none = (qk_circuit(models.bridge, 0, head, distance=d) for d in (1, 0))
        gain = one - none.diagonal()[:, None]
        torch.testing.assert_close(gain, expected, rtol=0, atol=1e-4, check_dtype=False)
    assert one.std() > 1e-2


def ov(models: Pair) -> None:
    """A word of one token attends to itself alone: its heads write what the circuit says."""
    tokens, plain = torch.arange(VOCABULARY)[:, None], models.plain
    heads = written(plain, tokens)[1 : 1 + HEADS, :, 0]
    gain = plain.final.weight if not plain.behind else 1 + plain.final.weight
    for head in range(HEADS):
        vector = heads[head]
        if plain.behind:
            vector = vector * (1 + plain.layers[0].post_attention_layernorm.weight)
        if hasattr(plain.final, "bias"):
            vector = vector - vector.mean(dim=-1, keepdim=True)
        found = ov_circuit(models.bridge, 0, head)
        torch.testing.assert_close(found, (vector * gain) @ plain.W_U, rtol=0, atol=1e-5)
