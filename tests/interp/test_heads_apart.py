"""How far heads look, and which directions they share: loops, closed forms, principal angles."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.linalg import subspace_angles
from test_head_types import WORDS, spelled
from test_transformer_lens import boot_native

from interp.heads.apart import SIDES, distances, overlap, shared_directions
from interp.model import activations
from models.model_config import Counting


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("mask_kind", ["causal", "strictly_causal", "bidirectional"])
def test_distances_against_loops(small_model: object, mask_kind: str) -> None:
    model = small_model(mask=mask_kind)
    tokens, mask = spelled(WORDS)
    hooks = [f"blocks.{layer}.attn.hook_pattern" for layer in range(2)]
    cache = activations(model, tokens, hooks)
    for row in distances(model, tokens, mask).itertuples():
        size = len(WORDS[row.word])
        pattern = cache[hooks[row.layer]][row.word, row.head].numpy()
        found, even = [], []
        for query in range(1, size + 1):
            reach = {"causal": query + 1, "strictly_causal": query, "bidirectional": size + 1}
            keys = range(reach[mask_kind])
            if len(keys) > 1:
                found.append(sum(pattern[query, k] * abs(query - k) for k in keys))
                even.append(np.mean([abs(query - k) for k in keys]))
        expected = (np.mean(found), np.mean(even)) if found else (math.nan, math.nan)
        assert (row.distance, row.even) == pytest.approx(expected, rel=1e-5, nan_ok=True)


def test_even_attention_looks_as_far_as_even_attention(small_model: object) -> None:
    model = small_model()
    for block in model.blocks:
        torch.nn.init.zeros_(block.attn.q.weight)
        torch.nn.init.zeros_(block.attn.q.bias)
    table = distances(model, *spelled(WORDS))
    np.testing.assert_allclose(table["distance"], table["even"], rtol=1e-6)
    # Of "b" after BOS: half of it lies one position back.
    assert table[table["word"] == 3]["even"].unique().tolist() == [0.5]


def test_overlap_is_the_mean_squared_cosine_of_principal_angles() -> None:
    a, b = (torch.linalg.qr(drawn(9, 4 + i).double())[0][:, :4] for i in range(2))
    angles = subspace_angles(a.numpy(), b.numpy())
    assert overlap(a, b) == pytest.approx(float((np.cos(angles) ** 2).mean()), abs=1e-12)
    assert overlap(a, a @ torch.linalg.qr(drawn(4, 4).double())[0]) == pytest.approx(1)
    assert overlap(a, -3 * a) == pytest.approx(1)
    assert math.isnan(overlap(a, torch.zeros(9, 2)))


def test_directions_count_by_their_strength() -> None:
    a = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    strong = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    assert overlap(a, strong) == pytest.approx(4 / math.sqrt(17))
    assert overlap(a, strong.flip(0)) == 0
    # Of Gaussian matrices the expected overlap is about width / (width + d_model).
    values = [overlap(drawn(300 + i, 100)[:300], drawn(300, 100)) for i in range(1, 9)]
    assert np.mean(values) == pytest.approx(100 / 401, abs=0.01)


def test_shared_directions_are_those_of_the_weights(small_model: object) -> None:
    model = small_model()
    attn = model.blocks[1].attn
    with torch.no_grad():  # the second head reads and writes what the first does
        attn.k.weight[4:8] = 2 * attn.k.weight[:4]
        attn.o.weight[:, 4:8] = -attn.o.weight[:, :4]
    assert attn.d_head == attn.d_value == 4
    table = shared_directions(model).set_index(["layer", "one", "other", "side"])["shared"]
    assert len(table) == 2 * 6 * len(SIDES)
    alike = table[table > 1 - 1e-6]
    assert sorted(alike.index) == [(1, 0, 1, "keys"), (1, 0, 1, "outputs")]
    assert table.between(0, 1 + 1e-9).all()


def test_a_head_that_attends_evenly_has_no_queries_to_compare(small_model: object) -> None:
    table = shared_directions(small_model(counting=Counting(averaging_heads=1)))
    asked = (table["one"] == 0) & table["side"].isin(["queries", "keys"])
    assert table["shared"].isna().tolist() == asked.tolist()


def test_slices_of_the_stream_share_nothing(small_model: object) -> None:
    table = shared_directions(small_model(scores="identity")).set_index("side")["shared"]
    assert (table[["queries", "keys"]] == 0).all()
    assert (table[["values", "outputs"]] > 0).all()


def test_transformer_lens_has_the_same_table(small_model: object) -> None:
    model = small_model()
    table, own = shared_directions(boot_native(model)), shared_directions(model)
    pd.testing.assert_frame_equal(table, own, rtol=1e-5)
