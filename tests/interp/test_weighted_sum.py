"""An LSTM as a weighted sum: against its own cells, against a loop, and as an explanation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from test_explain import case

from interp.explanations.attention import gates, has_gates
from interp.explanations.explain import explain, judge
from interp.explanations.methods import GATES, offered
from interp.heads.weighted_sum import is_a_sum, weights_and_candidates
from models.base import EmbeddingModel, build
from models.config import ModelConfig
from models.languages import Vocabulary

TOKENS = torch.tensor([[0, 2, 3, 4, 4, 2, 1], [0, 4, 4, 3, 2, 2, 3]])


def model_of(architecture: str = "lstm", **choices: object) -> EmbeddingModel:
    config = ModelConfig(**{**SMALL.__dict__, "architecture": architecture, **choices})
    vocabulary = Vocabulary(("a", "b", ">") if config.family.two_sided else ("a", "b", "c"))
    made = stir(build(config, vocabulary, 0)).double().eval()
    assert isinstance(made, EmbeddingModel)
    return made


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", [0, 1])
def test_the_sum_is_the_cell_to_1e_10(layer: int, bias: bool) -> None:
    model = model_of(bias=bias)
    weights, candidates = weights_and_candidates(model, TOKENS, layer)
    _, cache = model.run_with_cache(TOKENS)
    total = (weights * candidates[:, None]).sum(dim=2)
    torch.testing.assert_close(total, cache[f"blocks.{layer}.hook_cell"], rtol=0, atol=1e-10)
    assert ((weights >= 0) & (weights <= 1)).all()
    assert (weights.permute(0, 3, 1, 2).triu(1) == 0).all()


def test_each_weight_is_the_product_of_a_loop() -> None:
    """Gates of PyTorch's own cell, one position after the other."""
    model = model_of()
    weights, _ = weights_and_candidates(model, TOKENS, 0)
    _, cache = model.run_with_cache(TOKENS)
    rnn = model.get_submodule("blocks.0.rnn")
    w_x, w_h, b_x, b_h = rnn.parameters()
    x, h = cache["blocks.0.hook_resid_pre"], cache["blocks.0.hook_resid_post"]
    before, inputs, forgets = torch.zeros_like(h[:, 0]), [], []
    for t in range(TOKENS.shape[1]):
        i, f, _, _ = (x[:, t] @ w_x.T + before @ w_h.T + b_x + b_h).sigmoid().chunk(4, dim=1)
        inputs.append(i)
        forgets.append(f)
        before = h[:, t]
    for t in range(TOKENS.shape[1]):
        for j in range(t + 1):
            expected = inputs[j].clone()
            for k in range(j + 1, t + 1):
                expected *= forgets[k]
            torch.testing.assert_close(weights[:, t, j], expected)


def test_only_what_is_such_a_sum_is_taken_for_one() -> None:
    assert all(is_a_sum(model_of(), TOKENS, layer) for layer in (0, 1))
    for architecture in ("gru", "cnn", "transformer"):
        assert not is_a_sum(model_of(architecture), TOKENS, 0)
    pairs = torch.tensor([[0, 2, 3, 4, 2, 3, 1]])  # the decoder goes on from the encoder's state
    assert not is_a_sum(model_of("lstm-encoder-decoder"), pairs, 1)
    with pytest.raises(ValueError, match="layer 0 of HookedGRU is no LSTM"):
        weights_and_candidates(model_of("gru"), TOKENS, 0)


def test_the_gates_explain_an_lstm_beside_the_other_methods() -> None:
    known = case(model_of(), size=6)
    weights, _ = weights_and_candidates(model_of(), known.word[None], 1)
    expected = weights[0, -1, 1:].mean(dim=-1).numpy()
    assert gates(known) == pytest.approx(expected, abs=1e-12)
    assert GATES in offered(known)
    table = explain(known, [GATES, "random"])
    judged = judge(known, table).set_index("method")
    assert judged.loc[GATES, "family"] == "attention"
    assert np.isfinite(judged.loc[GATES, "AUROC"])


def test_a_cell_that_remembers_only_the_last_symbol_pays_it_alone() -> None:
    """Forget gates that are shut: what came before the last position weighs nothing."""
    model = model_of(n_layers=1)
    bias = model.get_submodule("blocks.0.rnn").bias_ih_l0
    with torch.no_grad():
        bias.chunk(4)[1].fill_(-1e3)
    value = gates(case(model, size=6))
    assert value[:-1] == pytest.approx(np.zeros(5), abs=1e-12)
    assert value[-1] > 0
    assert has_gates(case(model, size=6))
