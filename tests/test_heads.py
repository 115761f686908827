"""Ablation, direct logit attribution and patterns against what they are defined to be.

Equality with TransformerLens' attribution is in test_transformer_lens.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from interp.heads import ablate, direct_logit_attribution, patterns
from interp.model import activations, logit_at
from models.languages import END_ID
from models.transformer import HookedTransformer

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


def test_patterns_of_one_word(model: HookedTransformer, tokens: torch.Tensor) -> None:
    table = patterns(model, tokens[:1])
    pairs = 8 * 9 // 2
    assert len(table) == 2 * 4 * pairs
    assert (table["key"] <= table["query"]).all()
    rows = table.groupby(["layer", "head", "query"])["attention"].sum()
    assert rows.to_numpy() == pytest.approx(1.0, abs=1e-6)
    _, cache = model.run_with_cache(tokens[:1])
    place = table[["head", "query", "key"]].to_numpy().T
    for layer in range(2):
        at = (table["layer"] == layer).to_numpy()
        expected = cache["pattern", layer][0].detach().numpy()[tuple(place[:, at])]
        assert table["attention"].to_numpy()[at] == pytest.approx(expected, abs=1e-6)


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
