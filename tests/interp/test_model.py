"""Reading a model: its activations in chunks, a logit at a place."""

from __future__ import annotations

import pytest
import torch

from interp.causal.metrics import logit_at
from interp.model import CircuitModel, ReadableModel, activations, require
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
        ValueError, match=r"^HookedTransformer has no blocks\.7\.hook_cell: ask [^\n]*$"
    ):
        activations(model, tokens, ["blocks.0.hook_resid_pre", "blocks.7.hook_cell"])
    require(model, CircuitModel)

    class Bare:
        cfg, hook_dict = None, {}

    with pytest.raises(ValueError, match=r"^Bare is no ReadableModel, it lacks W_U, [^\n]*$"):
        require(Bare(), ReadableModel)
