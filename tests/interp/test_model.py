"""Reading a model: its activations in chunks, a logit at a place."""

from __future__ import annotations

import torch

from interp.causal.metrics import logit_at
from interp.model import activations
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
