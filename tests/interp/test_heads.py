"""Ablation, direct logit attribution and the circuits of heads against what they are defined to be.

Equality with TransformerLens' attribution is in test_transformer_lens.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_transformer_lens import boot_native

from interp.causal.metrics import logit_at
from interp.heads.ablation import (
    ablate,
    direct_logit_attribution,
    donors,
    ov_circuit,
    qk_circuit,
)
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


@pytest.mark.parametrize("scores", ["scaled_dot", "dot", "additive"])
def test_the_qk_circuit_is_the_first_layers_scores(small_model: object, scores: str) -> None:
    """Without positions, whatever the norm. One token is the query, another the key."""
    for changes in ({"norm": "none", "mlp": "none", "n_layers": 1}, {}, {"norm": "rms"}):
        model = small_model(scores=scores, **changes).double()
        pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5)).flip(1)  # key, query
        name = "blocks.0.attn.hook_attn_scores"
        found = activations(model, pairs, [name])[name][:, :, 1, 0]  # [pair, head]
        for head in range(4):
            expected = found[:, head].view(5, 5)
            assert expected.std() > 1e-2
            torch.testing.assert_close(qk_circuit(model, 0, head), expected)


def test_the_circuits_of_a_post_norm_block_read_the_stream(small_model: object) -> None:
    model = small_model(norm_placement="post", n_layers=1).double()
    x, attn = model.W_E, model.blocks[0].attn
    q, k = x @ attn.W_Q[1] + attn.b_Q[1], x @ attn.W_K[1] + attn.b_K[1]
    torch.testing.assert_close(qk_circuit(model, 0, 1), (q @ k.T / 2).detach())


def test_the_circuit_of_a_later_post_norm_block_passes_the_norms_before_it(
    small_model: object,
) -> None:
    """With attention and MLP of the first block silenced, the stream is the embedding alone."""
    model = small_model(norm_placement="post").double()
    block = model.blocks[0]
    with torch.no_grad():
        for linear in (block.attn.o, block.mlp.fc_out):
            linear.weight.zero_()
            linear.bias.zero_()
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(5)).flip(1)
    name = "blocks.1.attn.hook_attn_scores"
    found = activations(model, pairs, [name])[name][:, 2, 1, 0].view(5, 5)
    torch.testing.assert_close(qk_circuit(model, 1, 2), found)


@pytest.mark.parametrize("changes", [{}, {"averaging_heads": 2, "counters": True}])
def test_the_ov_circuit_explains_a_heads_direct_logits(
    small_model: object, changes: dict[str, object]
) -> None:
    """What a head adds to each logit is the OV circuit of the sources, weighted by its pattern;
    where it counts, what each number of z is divided by is held at 1."""
    model = small_model(norm="none", mlp="none", n_layers=1, **changes).double()
    tokens = torch.tensor([[0, 2, 4, 3, 2]])
    name = "blocks.0.attn.hook_pattern"
    pattern = activations(model, tokens, [name])[name][0]
    if changes:
        scale = model.blocks[0].attn.norm_z.hook_scale
        scale.add_hook(lambda scale, hook: torch.ones_like(scale))
    for token in range(5):
        table = direct_logit_attribution(model, tokens, torch.tensor([4]), token)
        for head in range(4):
            direct = table.query(f"part == 'L0H{head}'")["value"].item()
            explained = pattern[head, 4] @ ov_circuit(model, 0, head)[tokens[0], token]
            assert explained.item() == pytest.approx(direct, abs=1e-12)
            assert abs(direct) > 1e-4


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_the_ov_circuit_leaves_out_the_norms_scale_alone(
    small_model: object, norm: str, placement: str
) -> None:
    """Where all scales on the way are held at 1, a word of BOS alone gets the circuit's row."""
    model = small_model(norm=norm, norm_placement=placement, n_layers=1).double()
    bos = torch.zeros(1, 1, dtype=torch.long)
    way = [f"{name}.hook_scale" for name in model.norms_on_the_way(0, "attn")]

    def one(scale: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.ones_like(scale)

    with model.hooks(fwd_hooks=[(name, one) for name in way]):
        table = [
            direct_logit_attribution(model, bos, torch.tensor([0]), token) for token in range(5)
        ]
    for head in range(4):
        direct = [t.query(f"part == 'L0H{head}'")["value"].item() for t in table]
        assert ov_circuit(model, 0, head)[0].tolist() == pytest.approx(direct, abs=1e-9)


@pytest.mark.parametrize("method", ["zero", "mean", "resample"])
def test_ablation_runs_on_a_bridge(small_model: object, tokens: torch.Tensor, method: str) -> None:
    model = small_model(positions="learned")
    mask = torch.ones_like(tokens, dtype=torch.bool)
    ours, theirs = (ablate(m, tokens, mask, END_LOGIT, method) for m in (model, boot_native(model)))
    assert theirs["after"].to_numpy() == pytest.approx(ours["after"].to_numpy(), abs=1e-5)


def test_circuits_of_a_bridge(small_model: object) -> None:
    model = small_model(positions="learned")
    bridge = boot_native(model)
    for circuit in (qk_circuit, ov_circuit):
        for layer in range(2):
            torch.testing.assert_close(circuit(bridge, layer, 1), circuit(model, layer, 1))


def test_the_parts_of_a_word_sum_to_its_logit(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    positions = torch.tensor([7, 2, 0, 5])
    for token in (END_ID, 3):
        table = direct_logit_attribution(model, tokens, positions, token)
        total = table.groupby("word")["value"].sum().to_numpy()
        expected = model(tokens)[torch.arange(4), positions, token].detach().numpy()
        assert total == pytest.approx(expected, abs=1e-4)
    assert not table.duplicated(["part", "word"]).any()


def test_a_part_is_the_change_when_it_goes_and_the_norm_stays(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    """Take one head's result out of the last stream, hold the final norm's scale: the logit falls
    by the head's direct attribution."""
    positions = torch.full((4,), 7)
    table = direct_logit_attribution(model, tokens, positions, END_ID)
    logits, cache = model.run_with_cache(tokens)
    result, scale = cache["blocks.0.attn.hook_result"][:, -1, 2], cache["ln_final.hook_scale"]

    def take_out(resid: torch.Tensor, hook: object) -> torch.Tensor:
        resid = resid.clone()
        resid[:, -1] -= result
        return resid

    def hold(value: torch.Tensor, hook: object) -> torch.Tensor:
        return scale

    after = model.run_with_hooks(
        tokens, fwd_hooks=[("blocks.1.hook_resid_post", take_out), ("ln_final.hook_scale", hold)]
    )
    fallen = (logits - after)[:, -1, END_ID].detach().numpy()
    ours = table.query("part == 'L0H2'")["value"].to_numpy()
    assert ours == pytest.approx(fallen, abs=1e-4)
    assert np.abs(ours).max() > 1e-3


def test_the_logit_at_a_place(model: HookedTransformer, tokens: torch.Tensor) -> None:
    logits = model(tokens)
    assert torch.equal(logit_at(3)(logits), logits[:, 7, 3])
    assert torch.equal(logit_at(END_ID, 2)(logits), logits[:, 2, END_ID])
    at = logit_at(END_ID, torch.tensor([7, 0, 3, 1]))(logits)
    expected = [logits[row, position, END_ID] for row, position in enumerate((7, 0, 3, 1))]
    assert torch.equal(at, torch.stack(expected))


def test_activations_come_in_chunks_and_in_order(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    names = ["blocks.0.attn.hook_z", "blocks.1.hook_resid_post"]
    whole = activations(model, tokens, names)
    parts = activations(model, tokens, names, batch_size=3)
    assert list(whole) == list(parts) == names
    for name in names:
        torch.testing.assert_close(parts[name], whole[name])
        assert not whole[name].requires_grad
