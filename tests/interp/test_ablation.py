"""Ablation of heads against surgery on the weights and z put in by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_transformer_lens import boot_native

from interp.causal.ablation import ablate, donors
from interp.causal.metrics import logit_at
from interp.model import activations
from models.languages import END_ID
from models.transformer.model import HookedTransformer

END_LOGIT = logit_at(END_ID)


def without_head(model: HookedTransformer, layer: int, head: int, mean_z: torch.Tensor) -> None:
    """The ablation done to the weights: W_O of the head is cut, the mean's share joins the bias."""
    o = model.blocks[layer].attn.o
    columns = slice(head * model.config.d_head, (head + 1) * model.config.d_head)
    with torch.no_grad():
        o.bias += o.weight[:, columns] @ mean_z
        o.weight[:, columns] = 0


@pytest.mark.parametrize("method", ["zero", "mean"])
def test_ablation_is_surgery_on_the_weights(
    small_model: object, tokens: torch.Tensor, method: str
) -> None:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1, 5:] = mask[2, 3:] = False
    intact = small_model()
    table = ablate(intact, tokens, mask, END_LOGIT, method)
    assert len(table) == 2 * 4 * len(tokens)
    before = intact(tokens)[:, -1, END_ID].detach().numpy()
    for (layer, head), part in table.groupby(["layer", "head"]):
        name = f"blocks.{layer}.attn.hook_z"
        z = activations(intact, tokens, [name])[name][:, :, head]
        mean = torch.stack([z[i, t] for i, t in mask.nonzero().tolist()]).mean(0)
        model = small_model()
        without_head(model, layer, head, mean if method == "mean" else torch.zeros_like(mean))
        assert part["word"].tolist() == list(range(len(tokens)))
        assert part["before"].to_numpy() == pytest.approx(before, abs=1e-6)
        expected = model(tokens)[:, -1, END_ID].detach().numpy()
        assert part["after"].to_numpy() == pytest.approx(expected, abs=1e-4)
        assert np.abs(expected - before).max() > 1e-3


@pytest.mark.parametrize("method", ["zero", "mean"])
def test_pairs_are_taken_away_together(
    small_model: object, tokens: torch.Tensor, method: str
) -> None:
    """Pairs within a layer and across: surgery on the weights, the means of the intact model."""
    intact = small_model()
    mask = torch.ones_like(tokens, dtype=torch.bool)
    table = ablate(intact, tokens, mask, END_LOGIT, method, together=2)
    pairs = table.groupby("part", sort=False)
    assert len(pairs) == 28
    assert set(table["head"]) == set(table["layer"]) == {-1}
    hooks = [f"blocks.{layer}.attn.hook_z" for layer in (0, 1)]
    means = [z.flatten(0, 1).mean(0) for z in activations(intact, tokens, hooks).values()]
    for name in ("L0H0 + L0H3", "L0H1 + L1H2", "L1H0 + L1H1"):
        model = small_model()
        for part in name.split(" + "):
            layer, head = int(part[1]), int(part[3])
            instead = means[layer][head]
            without_head(model, layer, head, instead if method == "mean" else 0 * instead)
        expected = model(tokens)[:, -1, END_ID].detach().numpy()
        assert pairs.get_group(name)["after"].to_numpy() == pytest.approx(expected, abs=1e-4)


def test_a_resampled_head_is_another_words(small_model: object) -> None:
    """Word by word and head by head: z is put in by hand."""
    model = small_model()
    tokens = torch.tensor(
        [[0, 2, 3, 4, 1, 1], [0, 3, 3, 2, 4, 2], [0, 2, 3, 4, 1, 1], [0, 4, 4, 3, 2, 2]]
    )
    mask = tokens != END_ID
    at = mask.sum(1) - 1
    table = ablate(model, tokens, mask, logit_at(END_ID, at), "resample", seed=3)
    donor = donors(tokens, mask, 3)
    for row in table.itertuples():
        name = f"blocks.{row.layer}.attn.hook_z"
        z = activations(model, tokens[[donor[row.word]]], [name])[name]

        def put(old: torch.Tensor, hook: object, row: object = row, z: object = z) -> torch.Tensor:
            old = old.clone()
            old[0, :, row.head] = z[0, :, row.head]
            return old

        after = model.run_with_hooks(tokens[[row.word]], fwd_hooks=[(name, put)])
        assert row.after == pytest.approx(after[0, at[row.word], END_ID].item(), abs=1e-5)
    assert (table["after"] - table["before"]).abs().min() > 1e-4


def test_donors_are_other_words_at_least_as_long() -> None:
    words = ["aab", "aab", "abab", "b", "baba"]
    tokens = torch.tensor([[0, *(2 + "ab".index(s) for s in w.ljust(4, "a"))] for w in words])
    lengths = torch.tensor([len(word) for word in words])
    mask = torch.arange(5) <= lengths[:, None]
    drawn = [donors(tokens, mask, seed) for seed in range(60)]
    found = [{int(d[i]) for d in drawn} for i in range(5)]
    assert found == [{2, 4}, {2, 4}, {4}, {0, 1, 2, 4}, {2}]
    assert (donors(tokens, mask, 5) == drawn[5]).all()
    assert donors(tokens[:3], mask[:3], 0).tolist() == [2, 2, -1]


def test_a_word_without_donor_has_no_resampled_verdict(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[1:, 6:] = False
    table = ablate(model, tokens, mask, logit_at(END_ID, 4), "resample")
    assert table.groupby("word")["after"].apply(lambda a: a.isna().all()).tolist() == [
        True,
        *[False] * 3,
    ]
    assert table["before"].notna().all()


@pytest.mark.parametrize("method", ["zero", "mean", "resample"])
def test_heads_share_a_pass_or_do_not(
    model: HookedTransformer, tokens: torch.Tensor, method: str
) -> None:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    at = logit_at(END_ID, torch.tensor([7, 2, 5, 4]))
    together, alone = (ablate(model, tokens, mask, at, method, rows=r) for r in (2048, 1))
    assert together["after"].to_numpy() == pytest.approx(alone["after"].to_numpy(), abs=1e-6)


@pytest.mark.parametrize("method", ["zero", "mean", "resample"])
def test_ablation_runs_on_a_bridge(small_model: object, tokens: torch.Tensor, method: str) -> None:
    model = small_model(positions="learned")
    mask = torch.ones_like(tokens, dtype=torch.bool)
    ours, theirs = (ablate(m, tokens, mask, END_LOGIT, method) for m in (model, boot_native(model)))
    assert theirs["after"].to_numpy() == pytest.approx(ours["after"].to_numpy(), abs=1e-5)
