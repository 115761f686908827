"""Influence against finite differences and a product of Jacobians; steps against closed forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import SMALL, stir

from interp.causal.influence import Steps, arrows, decay, influence, steps
from interp.causal.metrics import logit_at
from models.base import EmbeddingModel, build
from models.config import ModelConfig
from models.languages import END_ID, Vocabulary

TOKENS = torch.tensor([[0, 2, 3, 4, 4, 2, 3], [0, 4, 4, 3, 2, 2, 3]])


def network(**choices: object) -> EmbeddingModel:
    config = ModelConfig(**{**SMALL.__dict__, **choices})
    made = stir(build(config, Vocabulary(("a", "b", "c")), 0)).double().eval()
    assert isinstance(made, EmbeddingModel)
    return made


def word(positions: int) -> torch.Tensor:
    return torch.tensor([0, *([2, 3, 4] * positions)])[:positions]


KINDS: list[dict[str, object]] = [{}, {"architecture": "lstm"}, {"architecture": "cnn"}]


@pytest.mark.parametrize("choices", KINDS, ids=str)
def test_influence_is_the_gradient_by_finite_differences(choices: dict[str, object]) -> None:
    model, metric, tiny = network(**choices), logit_at(END_ID), 1e-5
    found = influence(model, TOKENS, metric)
    _, cache = model.run_with_cache(TOKENS)
    x = cache["hook_embed"]
    for row, at in ((0, 0), (0, 4), (1, 6)):
        slopes = []
        for unit in range(x.shape[2]):
            sides = []
            for sign in (1.0, -1.0):
                moved = x.clone()
                moved[row, at, unit] += sign * tiny
                hooks = [("hook_embed", lambda old, hook, moved=moved: moved)]
                with torch.no_grad():
                    sides.append(metric(model.run_with_hooks(TOKENS, fwd_hooks=hooks))[row])
            slopes.append((sides[0] - sides[1]) / (2 * tiny))
        assert found[row, at] == pytest.approx(float(torch.stack(slopes).norm()), rel=1e-5)


def test_a_linear_recurrence_decays_at_its_own_rate() -> None:
    """The cell of an LSTM whose gates stand still keeps the forget gate's share at every step."""
    model = network(architecture="lstm", n_layers=1)
    rnn, keep = model.get_submodule("blocks.0.rnn"), 0.7
    with torch.no_grad():
        rnn.weight_hh_l0.zero_()
        rnn.weight_ih_l0.zero_()
        rnn.bias_hh_l0.zero_()
        i, f, c, o = rnn.bias_ih_l0.chunk(4)
        f.fill_(float(np.log(keep / (1 - keep))))
        i.fill_(0.0)
        o.fill_(0.0)
        c.fill_(0.0)
        # So small that tanh is a straight line.
        rnn.weight_ih_l0.chunk(4)[2].copy_(1e-7 * torch.eye(model.cfg.d_model))
    tokens = word(20)[None]
    found = influence(model, tokens, logit_at(END_ID))[:, ::-1]
    assert found[0, 1:] / found[0, :-1] == pytest.approx(np.full(19, keep), rel=1e-6)
    rate, low, high, fit = decay(np.vstack([found, found]))
    assert [rate, low, high] == pytest.approx([-np.log(keep)] * 3, rel=1e-6)
    assert fit == pytest.approx(1.0)


def test_the_rate_is_that_of_a_fitted_line_and_its_interval_holds_it() -> None:
    rng = np.random.default_rng(0)
    mean = 3.0 * np.exp(-0.2 * np.arange(12))
    values = mean * rng.lognormal(sigma=0.5, size=(200, 12))
    values[:, 8:] = 0.0  # a limit to how far it reaches
    rate, low, high, fit = decay(values)
    slope, _ = np.polyfit(np.arange(1, 8), np.log(values[:, 1:8].mean(axis=0)), 1)
    assert rate == pytest.approx(-slope)
    assert low < 0.2 < high < low + 0.1
    assert 0.9 < fit < 1
    assert np.isnan(decay(values[:, :3])).all()


@pytest.mark.parametrize("positions", [4, 9, 14])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_steps_are_those_of_the_lecture_s_table(layers: int, positions: int) -> None:
    """Attention O(1) and O(1), recurrence O(n) and O(n), convolution O(n/k) and O(1)."""
    n, tokens = positions - 1, word(positions)
    assert steps(network(n_layers=layers), tokens) == Steps(1, layers)
    for cell in ("lstm", "gru"):
        found = steps(network(n_layers=layers, architecture=cell), tokens)
        assert found == Steps(n, n + layers)
    for size in (2, 3, 5):
        far = -(-n // (size - 1))
        model = network(n_layers=layers, architecture="cnn", kernel_size=size)
        assert steps(model, tokens) == Steps(far if far <= layers else None, layers)


def test_masks_and_windows_are_seen() -> None:
    tokens = word(9)
    wide = network(n_layers=3, window=3)  # each layer sees itself and two places back
    assert steps(wide, tokens[:7]) == Steps(3, 3)
    assert steps(wide, tokens[:8]) == Steps(None, 3)
    graph = arrows(network(mask="strictly_causal", mlp="none"), tokens)
    into = {at for layer, at in graph[0, 5]}
    assert into == {0, 1, 2, 3, 4, 5}  # itself by the residual stream alone
    graph = arrows(network(mask="bidirectional"), tokens)
    assert graph[0, 5] == {(-1, at) for at in range(9)}


def test_a_model_without_an_embedding_is_refused() -> None:
    config = ModelConfig(architecture="ngram", order=3)
    model = build(config, Vocabulary(("a", "b", "c")), 0)
    for ask in (lambda: influence(model, TOKENS, logit_at(END_ID)), lambda: steps(model, word(4))):
        with pytest.raises(ValueError, match="has no hook_embed"):
            ask()
