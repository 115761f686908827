"""Gradient methods against closed forms, captum, finite differences and each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import DeepLift
from conftest import SMALL, stir
from torch import nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp.causal.metrics import Metric, logit_at
from interp.explanations.saliency import (
    EMBEDDING,
    ENOUGH,
    MOST_STEPS,
    PARTS,
    POINTS,
    FromEmbeddings,
    deeplift,
    gain,
    gradient_x_input,
    integrated_gradients,
    smoothgrad,
)
from models.base import LanguageModel, build
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig

Read = Callable[[torch.Tensor], torch.Tensor]

KINDS = {
    "decoder": {},
    "encoder": {"mask": "bidirectional", "positions": "learned"},
    "attention only": {"mlp": "none", "norm_placement": "post"},
    "lstm": {"architecture": "lstm"},
    "gru": {"architecture": "gru"},
    "rnn": {"architecture": "rnn"},
    "parallel": {"parallel": True, "qk_norm": "rms"},
    "linear": {"scores": "linear", "value_width": 3},
    "cnn": {"architecture": "cnn"},
}
WORD = torch.tensor([0, 3, 2, 4])  # every symbol once
BASELINES = torch.tensor([[0, 2, 2, 2], [0, 4, 3, 4], [0, 3, 4, 3]])


class Tiny(HookedRootModule):
    """The logits of one token by any function of the embeddings, [batch, pos, 3], in float64."""

    cfg = None

    def __init__(self, read: nn.Module) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = torch.randn(5, 3, generator=generator, dtype=torch.float64)
        self.hook_embed, self.read = HookPoint(), read.double()
        self.setup()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.read(self.hook_embed(self.table[tokens]).flatten(1))[:, None]


def drawn(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, generator=generator)
    return module


def double(**changes: object) -> LanguageModel:
    config = ModelConfig(**{**SMALL.__dict__, **changes})
    return stir(build(config, Vocabulary(("a", "b", "c")), 0)).double().eval()


def missed(
    model: object,
    word: torch.Tensor,
    baselines: torch.Tensor,
    metric: Metric,
    values: np.ndarray,
) -> float:
    """The distance of the values' sum from the gain."""
    return abs(values.sum() - gain(model, word, baselines, metric))


def verdict(model: LanguageModel) -> Metric:
    return logit_at(END_ID, int(model.verdict_positions(torch.tensor([3]))))


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> LanguageModel:
    return double(**KINDS[request.param])


# -- closed forms -------------------------------------------------------------------------------


def test_on_a_linear_model_every_method_has_its_closed_form() -> None:
    """w.x where nothing is a baseline, else w.(x - their mean), symbol by symbol; no noise."""
    linear = drawn(nn.Linear(4 * 3, 2))
    model, metric = Tiny(linear), logit_at(1)
    w, x = linear.weight[1].view(4, 3), model.table[WORD]
    input_alone = (w * x).sum(-1)[1:].detach().numpy()
    difference = (w * (x - model.table[BASELINES].mean(0))).sum(-1)[1:].detach().numpy()
    assert np.abs(input_alone - difference).max() > 0.1
    assert gradient_x_input(model, WORD, metric) == pytest.approx(input_alone)
    for noise in (0.0, 0.15, 9.0):
        assert smoothgrad(model, WORD, metric, noise=noise) == pytest.approx(input_alone)
    for steps in (1, MOST_STEPS):
        found = integrated_gradients(model, WORD, BASELINES, [metric], steps)[0]
        assert found == pytest.approx(difference)
    found = deeplift(model, WORD, BASELINES, metric)
    assert found == pytest.approx(difference)
    assert missed(model, WORD, BASELINES, metric, found) < 1e-12
    assert gain(model, WORD, BASELINES, metric) == pytest.approx(difference.sum())


class Square(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.pow(2).sum(-1, keepdim=True) / 2


def test_of_squares_the_way_is_known_and_no_part_is_cut() -> None:
    """Half x^2 less half of the baseline's: Gauss' rule is exact for polynomials."""
    model, metric = Tiny(Square()), logit_at(0)
    x, start = model.table[WORD], model.table[BASELINES]
    expected = ((x**2 - start**2) / 2).sum(-1).mean(0)[1:].numpy()
    assert integrated_gradients(model, WORD, BASELINES, [metric], 1)[0] == pytest.approx(expected)
    assert gradient_x_input(model, WORD, metric) == pytest.approx((x**2).sum(-1)[1:].numpy())


def test_the_noise_is_a_share_of_the_range() -> None:
    """Of squares the gradient is x + noise: the values scatter by |x| noise / sqrt(samples)."""
    model, metric = Tiny(Square()), logit_at(0)
    x = model.table[WORD]
    found = np.array(
        [smoothgrad(model, WORD, metric, seed, samples=4, noise=0.3) for seed in range(400)]
    )
    assert np.unique(found[:, 0]).size == 400
    assert smoothgrad(model, WORD, metric, 5, 4, 0.3) == pytest.approx(found[5], abs=0)
    spread = 0.3 * float(x.max() - x.min()) / 2 * x.norm(dim=-1)[1:].numpy()
    assert found.std(axis=0) == pytest.approx(spread, rel=0.1)
    assert found.mean(axis=0) == pytest.approx((x**2).sum(-1)[1:].numpy(), abs=0.2 * spread.max())


# -- real models --------------------------------------------------------------------------------


def test_the_gradient_is_that_of_the_table(kind: LanguageModel) -> None:
    """Each symbol stands once, so that the gradient of its row is that of its position."""
    metric, table = verdict(kind), kind.embed.weight
    (gradient,) = torch.autograd.grad(metric(kind(WORD[None])).sum(), table)
    expected = (gradient * table)[WORD].sum(-1)[1:].detach().numpy()
    found = gradient_x_input(kind, WORD, metric)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert np.abs(found).min() > 1e-6
    assert smoothgrad(kind, WORD, metric, noise=0.0) == pytest.approx(found, rel=1e-6)
    assert smoothgrad(kind, WORD, metric, noise=0.3) != pytest.approx(found, rel=1e-3)
    assert all(parameter.grad is None for parameter in kind.parameters())


def test_the_gradient_is_the_finite_difference(kind: LanguageModel) -> None:
    metric, found = verdict(kind), gradient_x_input(kind, WORD, verdict(kind))
    for position in range(1, 4):
        ends = []
        for step in (-1e-5, 1e-5):

            def grow(
                x: torch.Tensor, hook: object, step: float = step, position: int = position
            ) -> torch.Tensor:
                x = x.clone()
                x[:, position] *= 1 + step
                return x

            ends.append(metric(kind.run_with_hooks(WORD[None], fwd_hooks=[(EMBEDDING, grow)])))
        slope = float((ends[1] - ends[0]).detach()) / 2e-5
        assert found[position - 1] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_integrated_gradients_are_gauss_and_legendre_s_sum(kind: LanguageModel) -> None:
    """Point by point and baseline by baseline, each with a backward pass of its own."""
    metric = verdict(kind)
    f = FromEmbeddings(kind, metric)
    x, values = f.of(WORD[None]), []
    nodes, weights = np.polynomial.legendre.leggauss(POINTS)
    for start in f.of(BASELINES)[:, None]:
        total = torch.zeros_like(x)
        for part in range(PARTS):
            for node, weight in zip(nodes, weights, strict=True):
                share = (part + (node + 1) / 2) / PARTS
                point = (start + share * (x - start)).requires_grad_()
                (gradient,) = torch.autograd.grad(f(point).sum(), point)
                total += weight / 2 / PARTS * gradient
        values.append((total * (x - start)).sum(-1)[0, 1:].numpy())
    expected = np.mean(values, axis=0)
    found = integrated_gradients(kind, WORD, BASELINES, [metric], steps=1)[0]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_metrics_together_are_as_alone(kind: LanguageModel) -> None:
    """Each has lines of its own: the steep one asks for no more points of the other."""
    flat = verdict(kind)

    def steep(logits: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(40 * flat(logits))

    together = integrated_gradients(kind, WORD, BASELINES, [flat, steep])
    for metric, values in zip((flat, steep), together, strict=True):
        alone = integrated_gradients(kind, WORD, BASELINES, [metric])[0]
        assert values == pytest.approx(alone, rel=1e-9, abs=1e-12)
    assert not np.allclose(together[0], together[1])


def test_integrated_gradients_are_complete(kind: LanguageModel) -> None:
    metric = verdict(kind)
    values = integrated_gradients(kind, WORD, BASELINES, [metric])[0]
    whole = gain(kind, WORD, BASELINES, metric)
    assert missed(kind, WORD, BASELINES, metric, values) <= ENOUGH * abs(whole)


class Steep(nn.Module):
    """A sigmoid that rises within a hundredth of the way."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.linear, self.slope = drawn(nn.Linear(12, 1)), slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.slope * self.linear(x))


@pytest.mark.parametrize("slope", [1.0, 100.0, 3000.0])
def test_a_steep_verdict_is_cut_where_it_rises(slope: float) -> None:
    """The values of a function of w.x are known: w_i (x_i - its baseline's) of the gain."""
    model, metric = Tiny(Steep(slope).double()), logit_at(0)
    x, start = model.table[WORD], model.table[BASELINES]
    w = model.read.linear.weight[0].detach().view(4, 3)
    f = FromEmbeddings(model, metric)
    gains = (f(f.of(WORD[None])) - f(f.of(BASELINES))).detach()
    assert gains.abs().max() > 0.3
    apart = (w * (x - start)).sum(-1)  # [baseline, position]
    expected = (apart / apart.sum(-1, keepdim=True) * gains[:, None]).mean(0)[1:].numpy()
    passed: list[int] = []
    model.hook_embed.register_forward_pre_hook(lambda _, args: passed.append(len(args[0])))
    found = integrated_gradients(model, WORD, BASELINES, [metric])[0]
    assert sum(passed) < 700 * len(BASELINES)
    assert found == pytest.approx(expected, abs=2 * ENOUGH * abs(float(gains.mean())))
    if slope > 1:
        rough = integrated_gradients(model, WORD, BASELINES, [metric], POINTS * PARTS)[0]
        assert np.abs(rough - expected).max() > 0.05


@pytest.mark.parametrize("steps", [24, 50, 200])
def test_no_line_has_more_points_than_it_may(steps: int) -> None:
    """The bound holds for a verdict that no quadrature catches."""
    model, metric = Tiny(Steep(1e9).double()), logit_at(0)
    seen: list[int] = []
    model.hook_embed.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    integrated_gradients(model, WORD, BASELINES, [metric], steps)
    ends = 2 / POINTS  # each part is asked at its two ends too
    assert sum(seen) <= len(BASELINES) * steps * (1 + ends) + 2 * (1 + len(BASELINES))


def test_deeplift_is_captums_baseline_by_baseline(kind: LanguageModel) -> None:
    metric = verdict(kind)
    f = FromEmbeddings(kind, metric)
    found = deeplift(kind, WORD, BASELINES, metric)  # first: it teaches captum two activations
    rows = []
    for baseline in BASELINES:
        x = f.of(WORD[None]).requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            values = DeepLift(f).attribute(x, f.of(baseline[None]))
        rows.append(values[0].sum(-1)[1:].detach().numpy())
    assert found == pytest.approx(np.mean(rows, axis=0), rel=1e-9, abs=1e-12)
    with torch.no_grad():  # as the pages ask
        assert deeplift(kind, WORD, BASELINES, metric) == pytest.approx(found)
    assert not any(module._backward_hooks for module in kind.modules())
    after = gradient_x_input(kind, WORD, metric)
    assert after == pytest.approx(gradient_x_input(double_of(kind), WORD, metric))


def double_of(model: LanguageModel) -> LanguageModel:
    """The same model, on which no hook was ever set."""
    fresh = build(model.config, model.vocabulary, 0).double().eval()
    fresh.load_state_dict(model.state_dict())
    return fresh


def test_deeplift_is_complete_without_attention() -> None:
    """A perceptron of two layers; the plain gradient is not."""
    layers = nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)
    )
    model, metric = Tiny(drawn(layers)), logit_at(1)
    found = deeplift(model, WORD, BASELINES, metric)
    assert missed(model, WORD, BASELINES, metric, found) < 1e-9
    plain = gradient_x_input(model, WORD, metric)
    assert missed(model, WORD, BASELINES, metric, plain) > 0.1


@pytest.mark.parametrize("act_fn", ["relu", "gelu", "silu"])
def test_deeplift_is_complete_on_convolutions_without_norm(act_fn: str) -> None:
    """Every activation that the lab's models have follows the rule."""
    model = double(architecture="cnn", norm="none", act_fn=act_fn)
    found = deeplift(model, WORD, BASELINES, verdict(model))
    assert missed(model, WORD, BASELINES, verdict(model), found) < 1e-9
    assert np.abs(found).max() > 0.01


def test_the_global_random_state_stays(kind: LanguageModel) -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    for seed in (1, 2):
        smoothgrad(kind, WORD, verdict(kind), seed)
        deeplift(kind, WORD, BASELINES, verdict(kind))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()
