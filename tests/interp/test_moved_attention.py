"""Moved attention: against a grid where one number says all, and heads that nothing reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from scipy.spatial.distance import jensenshannon

from interp.causal.metrics import logit_at
from interp.explanations.moved_attention import LARGEST, moved_attention
from interp.heads.attention import attention
from models.base import LanguageModel, build
from models.languages import END_ID, Vocabulary
from models.model_config import ModelConfig


def make(**changes: object) -> LanguageModel:
    config = ModelConfig(**{**SMALL.__dict__, **changes})
    return stir(build(config, Vocabulary(("a", "b", "c")), 0)).eval()


def probability(model: LanguageModel, word: torch.Tensor, head: int, row: torch.Tensor) -> float:
    """With other weights of one head of the first layer at the last query."""

    def put(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        pattern = pattern.clone()
        pattern[:, head, -1] = row
        return pattern

    hooks = [("blocks.0.attn.hook_pattern", put)]
    with torch.no_grad():
        logits = model.run_with_hooks(word[None], fwd_hooks=hooks)
    return float(logits[0, -1, END_ID].sigmoid())


@pytest.mark.parametrize("tolerance", [0.003, 0.02])
def test_with_two_keys_the_furthest_point_is_that_of_a_grid(tolerance: float) -> None:
    """BOS and one symbol: a head has one number, so that all its weights can be tried."""
    model, word = make(n_layers=1, n_heads=2), torch.tensor([0, 3])
    table = moved_attention(model, word, 1, logit_at(END_ID, 1), tolerance)
    pattern, _ = attention(model, word[None])
    before = float(model(word[None])[0, -1, END_ID].sigmoid().detach())
    for head in range(2):
        own = pattern[0, 0, head, 1]
        furthest = 0.0
        for first in np.linspace(0, 1, 401):
            row = torch.tensor([first, 1 - first], dtype=own.dtype)
            if abs(probability(model, word, head, row) - before) <= tolerance:
                with np.errstate(invalid="ignore"):  # of equal rows the rounding may be below 0
                    apart = np.nan_to_num(jensenshannon(own.numpy(), row.numpy()))
                furthest = max(furthest, float(apart**2))
        found = table.iloc[head]
        assert found["part"] == f"L0H{head}"
        assert found["divergence"] == pytest.approx(furthest, rel=0.25, abs=5e-4)
        assert found["divergence"] <= furthest + 1e-3
        assert found["change"] <= tolerance
        turned = own.flip(0)
        moved = [abs(probability(model, word, head, row) - before) for row in (own, turned)]
        kept = np.mean([change <= tolerance for change in moved])
        assert found["permuted kept"] == pytest.approx(kept, abs=0.2)  # half are turned around


def test_a_head_that_nothing_reads_moves_freely_and_one_that_decides_does_not() -> None:
    """The verdict is a steep function of where one head looks; the other head's output is 0."""
    model, word = make(n_layers=1, n_heads=2, mlp="none"), torch.tensor([0, 2, 3, 4, 2, 3])
    with torch.no_grad():
        model.blocks[0].attn.W_O.data[0] = 0.0
        model.blocks[0].attn.W_O.data[1] *= 30
    table = moved_attention(model, word, 5, logit_at(END_ID, 5), 0.001).set_index("part")
    assert table.loc["L0H0", "divergence"] > 0.7 * LARGEST
    assert table.loc["L0H0", "permuted kept"] == 1
    assert table.loc["L0H0", "change"] == pytest.approx(0, abs=1e-6)
    assert table.loc["L0H1", "permuted kept"] < 0.5
    assert table.loc["L0H1", "divergence"] < table.loc["L0H0", "divergence"]


def test_what_is_masked_gets_no_weight_and_the_seed_decides() -> None:
    """A verdict read before the end: later symbols are not seen, whatever they are."""
    model = make(n_layers=2, n_heads=2)
    one, other = torch.tensor([0, 2, 3, 4, 2]), torch.tensor([0, 2, 3, 2, 3])
    metric = logit_at(END_ID, 2)
    first, again, changed = (moved_attention(model, w, 2, metric) for w in (one, one, other))
    assert first.equals(again)
    numbers = ["divergence", "permuted divergence", "permuted change"]
    assert first[numbers].to_numpy() == pytest.approx(changed[numbers].to_numpy(), abs=2e-3)
    assert first["part"].tolist() == ["L0H0", "L0H1", "L1H0", "L1H1", "all heads"]
    assert first["divergence"].between(0, LARGEST + 1e-6).all()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_without_attention_is_refused() -> None:
    with pytest.raises(ValueError, match="has no blocks"):
        moved_attention(make(architecture="lstm"), torch.tensor([0, 2]), 1, logit_at(END_ID, 1))
