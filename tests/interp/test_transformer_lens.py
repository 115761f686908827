"""TransformerLens 4.3 takes our model for one of its own, and agrees with it.

The oracle is ``TransformerBridge.boot_native``, its own small decoder, given our weights.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformer_lens import ActivationCache, patching
from transformer_lens.config import TransformerBridgeConfig
from transformer_lens.head_detector import detect_head
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.model_protocol import (
    TrainableTransformerLensModel,
    TransformerLensModel,
    TransformerLensModelWithWeights,
)
from transformer_lens.tools.analysis import direct_logit_attribution, logit_lens

from interp.causal.metrics import logit_at
from interp.causal.patching import patch
from interp.heads.logit_attribution import direct_logit_attribution as our_attribution
from models.languages import END_ID
from models.transformer.model import HookedTransformer

Make = Callable[..., HookedTransformer]
CLEAN, CORRUPTED = "aabbbc", "aacbbc"


def boot_native(model: HookedTransformer) -> TransformerBridge:
    """TransformerLens' decoder with our weights; a model without positions has a table of zeros."""
    config = model.config
    bridge = TransformerBridge.boot_native(
        TransformerBridgeConfig(
            d_model=config.d_model,
            d_head=config.d_head,
            n_heads=config.n_heads,
            n_layers=config.n_layers,
            n_ctx=config.n_ctx,
            d_mlp=config.d_mlp,
            d_vocab=len(model.vocabulary),
            act_fn=config.act_fn,
            eps=config.eps,
            normalization_type="LN",
            seed=0,
            default_prepend_bos=False,
        )
    )
    module = bridge.original_model
    native = {
        name.replace("._original_component", ""): value
        for name, value in [*module.named_parameters(), *module.named_buffers()]
        if name.endswith(("weight", "bias"))
    }
    names = {
        "embed.weight": "tok_embed.weight",
        "pos_embed.weight": "pos.weight",
        "unembed.linear.weight": "head.weight",
        "unembed.linear.bias": "head.bias",
    }
    with torch.no_grad():
        for value in native.values():
            value.zero_()
        native["ln_out.weight"].fill_(1.0)
        for name, value in model.named_parameters():
            target = native[names.get(name, name.replace("blocks.", "layers."))]
            assert target.shape == value.shape, name
            target.copy_(value)
    return bridge.eval()


@pytest.fixture(
    params=[
        {"positions": "learned"},
        {"positions": "none", "act_fn": "relu"},
        {"positions": "none", "bias": False, "n_heads": 2},
    ],
    ids=["learned positions", "no positions", "no bias"],
)
def model(small_model: Make, request: pytest.FixtureRequest) -> HookedTransformer:
    return small_model(**request.param)


def test_the_model_conforms_to_the_protocols(model: HookedTransformer) -> None:
    for protocol in (
        TransformerLensModel,
        TransformerLensModelWithWeights,
        TrainableTransformerLensModel,
    ):
        assert isinstance(model, protocol)


def test_logits_and_activations_equal_transformerlens(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    bridge = boot_native(model)
    close = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(bridge(tokens), model(tokens), **close)
    _, theirs = bridge.run_with_cache(tokens)
    _, ours = model.run_with_cache(tokens)
    assert isinstance(ours, ActivationCache)
    lacking = {f"blocks.{layer}.attn.hook_result" for layer in range(2)}
    assert set(ours.keys()) - set(theirs.keys()) == lacking
    # The native bridge's hook_attn_scores holds the pattern; test_transformer looks after ours.
    skipped = {f"blocks.{layer}.attn.hook_attn_scores" for layer in range(2)}
    for name in set(ours.keys()) - lacking - skipped:
        torch.testing.assert_close(
            theirs[name], ours[name], msg=lambda text, name=name: f"{name}: {text}", **close
        )


def test_the_accumulated_bias_equals_transformerlens(model: HookedTransformer) -> None:
    bridge = boot_native(model)
    for layer in range(3):
        for options in ({}, {"mlp_input": True}, {"include_mlp_biases": False}):
            if layer == 2 and "mlp_input" in options:
                continue  # there is no third block
            theirs = bridge.accumulated_bias(layer, **options)
            torch.testing.assert_close(model.accumulated_bias(layer, **options), theirs)


def end_logit(logits: torch.Tensor) -> torch.Tensor:
    """The metric as TransformerLens' patching wants it: one number a batch."""
    return logits[:, -1, END_ID].mean()


TABLES = {
    "resid_pre": patching.get_act_patch_resid_pre,
    "resid_mid": patching.get_act_patch_resid_mid,
    "attn_out": patching.get_act_patch_attn_out,
    "mlp_out": patching.get_act_patch_mlp_out,
    "z": patching.get_act_patch_attn_head_out_by_pos,
    "q": patching.get_act_patch_attn_head_q_by_pos,
    "k": patching.get_act_patch_attn_head_k_by_pos,
    "v": patching.get_act_patch_attn_head_v_by_pos,
}
WHOLE = {
    "z": patching.get_act_patch_attn_head_out_all_pos,
    "q": patching.get_act_patch_attn_head_q_all_pos,
    "k": patching.get_act_patch_attn_head_k_all_pos,
    "v": patching.get_act_patch_attn_head_v_all_pos,
    "pattern": patching.get_act_patch_attn_head_pattern_all_pos,
}


@pytest.mark.parametrize("component", TABLES)
def test_patching_equals_transformerlens(model: HookedTransformer, component: str) -> None:
    """Two pairs in one batch: TransformerLens gives the mean over them."""
    clean, corrupted = model.to_tokens([CLEAN, "abcabc"]), model.to_tokens([CORRUPTED, "abcacc"])
    _, cache = model.run_with_cache(clean)
    theirs = TABLES[component](model, corrupted, cache, end_logit)
    ours = patch(model, clean, corrupted, logit_at(END_ID), [component], memory=2**14)
    place = ["layer", "position"] if theirs.dim() == 2 else ["layer", "position", "head"]
    table = ours.groupby(place)["patched"].mean()
    assert len(table) == theirs.numel()
    assert table.to_numpy() == pytest.approx(theirs.detach().flatten().numpy(), abs=1e-5)
    assert theirs.std() > 1e-3


@pytest.mark.parametrize("component", WHOLE)
def test_patching_at_all_positions_equals_transformerlens(
    model: HookedTransformer, component: str
) -> None:
    clean, corrupted = model.to_tokens([CLEAN, "abcabc"]), model.to_tokens([CORRUPTED, "abcacc"])
    _, cache = model.run_with_cache(clean)
    theirs = WHOLE[component](model, corrupted, cache, end_logit)
    ours = patch(model, clean, corrupted, logit_at(END_ID), [component], whole=True)
    table = ours.groupby(["layer", "head"])["patched"].mean()
    assert table.to_numpy() == pytest.approx(theirs.detach().flatten().numpy(), abs=1e-5)
    assert theirs.std() > 1e-4


@pytest.mark.slow
def test_patching_of_single_pattern_entries_equals_transformerlens(
    model: HookedTransformer,
) -> None:
    """TransformerLens also patches what the mask forbids: there nothing happens."""
    clean, corrupted = model.to_tokens([CLEAN]), model.to_tokens([CORRUPTED])
    _, cache = model.run_with_cache(clean)
    theirs = patching.get_act_patch_attn_head_pattern_dest_src_pos(
        model, corrupted, cache, end_logit
    ).detach()
    ours = patch(model, clean, corrupted, logit_at(END_ID), ["pattern"])
    where = tuple(torch.tensor(ours[c].tolist()) for c in ("layer", "head", "position", "key"))
    table = torch.full_like(theirs, float(ours["corrupted"].iloc[0]))
    table[where] = torch.tensor(ours["patched"].to_numpy(copy=True), dtype=table.dtype)
    torch.testing.assert_close(table, theirs, rtol=0, atol=1e-5)
    assert theirs.std() > 1e-5


def test_detect_head(model: HookedTransformer) -> None:
    """The share of attention on the previous token, against our own pattern."""
    found = detect_head(model, "abcab", "previous_token_head")
    _, cache = model.run_with_cache("abcab")
    for layer in range(2):
        pattern = cache["pattern", layer][0]
        expected = pattern.diagonal(-1, 1, 2).sum(-1) / pattern.sum((1, 2))
        torch.testing.assert_close(found[layer], expected.detach(), rtol=0, atol=2e-3)


def test_logit_lens(model: HookedTransformer) -> None:
    """The last entry is the model's own output, the first the embedding read at once."""
    text = "abcab"
    lens = logit_lens(model, text, positions=None)
    logits, cache = model.run_with_cache(text)
    assert lens.labels[0] == "0_pre"
    assert lens.labels[-1] == "final_post"
    torch.testing.assert_close(lens.values[-1], logits.detach(), rtol=0, atol=1e-5)
    first = model.unembed(model.ln_final(cache["resid_pre", 0]))
    torch.testing.assert_close(lens.values[0], first.detach(), rtol=0, atol=1e-5)


def test_logit_lens_equals_that_of_the_bridge(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    ours = logit_lens(model, tokens, targets=[END_ID])
    theirs = logit_lens(boot_native(model), tokens, targets=[END_ID])
    assert ours.labels == theirs.labels
    torch.testing.assert_close(ours.values, theirs.values, rtol=0, atol=1e-5)
    assert torch.equal(ours.rank_trajectory(END_ID), theirs.rank_trajectory(END_ID))


@pytest.mark.parametrize("unit", ["component", "head"])
def test_attribution_sums_to_the_logit(
    model: HookedTransformer, tokens: torch.Tensor, unit: str
) -> None:
    found = direct_logit_attribution(model, tokens, END_ID, unit=unit)
    total = found.attribution.sum(0) + model.b_U[END_ID]
    torch.testing.assert_close(total, model(tokens)[:, -1, END_ID], rtol=0, atol=1e-4)


@pytest.mark.parametrize("position", [-1, 3])
def test_our_attribution_equals_transformerlens(
    model: HookedTransformer, tokens: torch.Tensor, position: int
) -> None:
    at = torch.full((len(tokens),), position % tokens.shape[1])
    ours = our_attribution(model, tokens, at, END_ID).pivot(
        index="word", columns="part", values="value"
    )
    heads = direct_logit_attribution(model, tokens, END_ID, unit="head", pos=position)
    parts = direct_logit_attribution(model, tokens, END_ID, unit="component", pos=position)
    theirs = dict(zip(heads.labels, heads.attribution.detach().numpy(), strict=True))
    theirs |= dict(zip(parts.labels, parts.attribution.detach().numpy(), strict=True))
    for layer in range(2):
        names = [f"L{layer}H{head}" for head in range(model.config.n_heads)]
        for name in names:
            assert ours[name].to_numpy() == pytest.approx(theirs[name], abs=1e-4)
        attention = ours[[*names, *ours.columns.intersection([f"L{layer} bias"])]].sum(axis=1)
        assert attention.to_numpy() == pytest.approx(theirs[f"{layer}_attn_out"], abs=1e-4)
        mlp = ours[f"L{layer} mlp"].to_numpy()
        assert mlp == pytest.approx(theirs[f"{layer}_mlp_out"], abs=1e-4)
    embed = theirs["embed"] + theirs.get("pos_embed", 0)
    assert ours["embed"].to_numpy() == pytest.approx(embed, abs=1e-4)


# -- and the other way round: our lenses on TransformerLens' model ---------------------------------


@pytest.mark.parametrize("component", ["resid_pre", "z", "v", "pattern", "neuron"])
def test_our_patching_runs_on_a_bridge(model: HookedTransformer, component: str) -> None:
    bridge = boot_native(model)
    clean, corrupted = model.to_tokens(CLEAN), model.to_tokens(CORRUPTED)
    ours = patch(model, clean, corrupted, logit_at(END_ID), [component])
    theirs = patch(bridge, clean, corrupted, logit_at(END_ID), [component])
    assert theirs["patched"].to_numpy() == pytest.approx(ours["patched"].to_numpy(), abs=1e-5)


def test_our_attribution_runs_on_a_bridge(model: HookedTransformer, tokens: torch.Tensor) -> None:
    """The bridge's final norm is the identity here, as the lens asks."""
    at = torch.full((len(tokens),), 4)
    ours = our_attribution(model, tokens, at, END_ID)
    theirs = our_attribution(boot_native(model), tokens, at, END_ID)
    assert theirs["part"].tolist() == ours["part"].tolist()
    assert theirs["value"].to_numpy() == pytest.approx(ours["value"].to_numpy(), abs=1e-4)
