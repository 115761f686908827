"""Reading a model: its activations in chunks, a logit at a place."""

from __future__ import annotations

import pytest
import torch
from test_transformer_lens import Make, boot_native

from interp.causal.metrics import logit_at
from interp.causal.patching import patch
from interp.model import (
    CircuitModel,
    ReadableModel,
    activations,
    require,
    require_stream,
)
from models.languages import END_ID
from models.transformer.model import HookedTransformer


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


def test_what_a_model_lacks_is_said_in_one_line(
    model: HookedTransformer, tokens: torch.Tensor
) -> None:
    with pytest.raises(
        ValueError, match=r"^HookedTransformer has no blocks\.7\.hook_cell: use [^\n]*$"
    ):
        activations(model, tokens, ["blocks.0.hook_resid_pre", "blocks.7.hook_cell"])
    require(model, CircuitModel)

    class Bare:
        cfg, hook_dict = None, {}

    with pytest.raises(ValueError, match=r"^Bare is no ReadableModel, it lacks W_U, [^\n]*$"):
        require(Bare(), ReadableModel)


def test_a_bridge_is_not_patched_where_the_stream_passes_by(small_model: Make) -> None:
    """Its hook_resid_mid is what ln2 reads: putting all of it in from another word is no patch."""
    model = small_model(positions="learned")
    bridge = boot_native(model)
    require_stream(model, "blocks.0.hook_resid_mid")
    require_stream(bridge, "blocks.0.hook_resid_pre", "blocks.1.hook_resid_post")
    with pytest.raises(ValueError, match=r"is blocks\.0\.ln2\.hook_in, which the MLP alone reads"):
        require_stream(bridge, "blocks.0.hook_resid_mid")
    clean, corrupted = model.to_tokens(["aabbbc"]), model.to_tokens(["aacbbc"])
    with pytest.raises(ValueError, match="change the stream at hook_resid_pre"):
        patch(bridge, clean, corrupted, logit_at(END_ID), ["resid_mid"])
