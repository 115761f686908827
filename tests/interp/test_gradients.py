"""Gradients by layer, through the softmax, and the drift of activations, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from torch import Tensor

from interp.training.drift import drift
from interp.training.gradients import gradients_of, norms_by_layer, softmax_by_layer
from models.base import LanguageModel, build
from models.languages import language

TOKENS = torch.tensor([[0, 2, 2, 3, 3], [0, 3, 2, 1, 1]])
INSIDE = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def model_of(**changes: object) -> LanguageModel:
    return stir(build(replace(SMALL, **changes), language("anbn").vocabulary)).double()


def value(logits: Tensor) -> Tensor:
    return (logits.square() * INSIDE[..., None]).sum()


def test_a_layers_norm_is_that_of_all_its_numbers() -> None:
    model = model_of()
    found = norms_by_layer(gradients_of(model, value(model(TOKENS))))
    value(model(TOKENS)).backward()
    for layer, block in enumerate(model.get_submodule("blocks").children()):
        parts = [p.grad.reshape(-1) for p in block.parameters() if p.grad is not None]
        assert found[layer] == pytest.approx(float(torch.cat(parts).norm()), rel=1e-12)
    assert list(found) == [0, 1]
    # One weight by finite differences.
    weight, step = model.get_parameter("blocks.0.mlp.fc_in.weight"), 1e-6
    with torch.no_grad():
        ends = []
        for sign in (1, -2):
            weight[1, 2] += sign * step
            ends.append(float(value(model(TOKENS))))
        weight[1, 2] += step
    assert weight.grad is not None
    assert float(weight.grad[1, 2]) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5)


def even(model: LanguageModel) -> LanguageModel:
    """Its scores are all 0."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if ".attn.q." in name:
                weight.zero_()
    return model


def test_even_attention_has_entropy_1_and_passes_one_kth() -> None:
    def loss(logits: Tensor) -> Tensor:  # of the last position: five keys
        return logits[0, 4].square().sum()

    whole = torch.ones(1, 5, dtype=torch.bool)
    found = softmax_by_layer(even(model_of(n_layers=1)), TOKENS[:1], loss, whole)
    assert found[0].entropy == pytest.approx(1.0, rel=1e-12)
    # The gradient behind the softmax is (g - mean g) / k.
    model, seen = even(model_of(n_layers=1)), {}
    out = model.run_with_hooks(
        TOKENS[:1],
        fwd_hooks=[("blocks.0.attn.hook_pattern", lambda t, hook: seen.update(pattern=t))],
    )
    (g,) = torch.autograd.grad(loss(out), [seen["pattern"]])
    row = g[0, :, 4]
    expected = ((row - row.mean(dim=-1, keepdim=True)) / 5).norm() / row.norm()
    assert found[0].passed == pytest.approx(float(expected), rel=1e-10)
    assert found[0].passed <= 1 / 5


def test_a_sharp_softmax_passes_nothing() -> None:
    soft, sharp = model_of(), model_of()
    with torch.no_grad():
        for name, weight in sharp.named_parameters():
            if ".attn.q." in name:
                weight *= 1e4
    found = softmax_by_layer(sharp, TOKENS, value, INSIDE)
    usual = softmax_by_layer(soft, TOKENS, value, INSIDE)
    for layer in (0, 1):
        assert found[layer].passed < 1e-3 * usual[layer].passed
        # Equal symbols are equal keys here, between which it cannot choose.
        assert found[layer].entropy < usual[layer].entropy / 3 < 1 / 3


def test_padding_and_models_without_attention_do_not_count() -> None:
    model = model_of()
    found = softmax_by_layer(model, TOKENS, value, INSIDE)[1]
    other = TOKENS.clone()
    other[1, 3:] = 2  # the same words with other padding
    again = softmax_by_layer(model, other, value, INSIDE)[1]
    assert (again.entropy, again.passed) == pytest.approx((found.entropy, found.passed), rel=1e-9)
    lstm = build(replace(SMALL, architecture="lstm"), language("anbn").vocabulary)
    assert softmax_by_layer(lstm, TOKENS, value, INSIDE) == {}


def test_drift_of_a_shifted_and_stretched_cloud() -> None:
    x = np.random.default_rng(0).normal(size=(500, 3)) * [1, 2, 3] + 5
    spread = np.sqrt(np.trace(np.cov(x.T, bias=True)))
    moved = drift(x, x + np.array([3, 4, 0]))
    assert (moved.mean, moved.spread) == pytest.approx((5 / spread, 0), abs=1e-12)
    grown = drift(x, (x - x.mean(axis=0)) * 1.5 + x.mean(axis=0))
    assert (grown.mean, grown.spread) == pytest.approx((0, 0.5), abs=1e-12)
    shrunk = drift(x, (x - x.mean(axis=0)) * 0.25 + x.mean(axis=0))
    assert shrunk.spread == pytest.approx(0.75)
    assert np.isnan(drift(np.ones((4, 2)), x[:4, :2]).mean)
