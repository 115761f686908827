"""Attention beside effects, against values put in by hand; rank correlation against scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from test_head_types import spelled

from interp.causal.metrics import logit_at
from interp.heads.attention_and_effect import attention_and_effect, rank_correlation
from interp.heads.rollout_and_flow import flow, rollout
from interp.model import activations
from models.languages import END_ID


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"mask": "bidirectional"}], ids=["decoder", "encoder"])
def test_attention_beside_the_effect_by_hand(small_model: object, changes: object) -> None:
    model = small_model(**changes)
    (word,), _ = spelled(["abca"])
    changed, _ = spelled(["bbca", "acca", "abaa", "abcb"])
    at = 0 if model.config.sees_ahead else 4
    metric = logit_at(END_ID, at)
    table = attention_and_effect(model, word, changed, metric, at)
    names = [f"blocks.{layer}.attn.hook_v" for layer in range(2)]
    before = metric(model(word[None]))

    def moved(hook: str, put: object) -> float:
        """How far the metric moves, by the mean over the changed words."""
        sources = activations(model, changed, [hook])[hook]
        runs = [
            model.run_with_hooks(
                word[None], fwd_hooks=[(hook, lambda x, hook, s=source: put(x.clone(), s))]
            )
            for source in sources
        ]
        return float(np.mean([(metric(run) - before).abs().item() for run in runs]))

    pattern = torch.stack(
        [activations(model, word[None], [n.replace("hook_v", "hook_pattern")]).popitem()[1][0]
         for n in names]
    )  # fmt: skip
    for row in table.itertuples():
        position, head = row.position, row.head
        if row.part in ("rollout", "flow"):

            def put(x: torch.Tensor, s: torch.Tensor, p: int = position) -> torch.Tensor:
                x[0, p] = s[p]
                return x

            expected = moved("blocks.0.hook_resid_pre", put)
            looks = rollout(pattern)[at] if row.part == "rollout" else flow(pattern, at)
            assert (row.layer, row.head) == (-1, -1)
        else:

            def put(
                x: torch.Tensor, s: torch.Tensor, p: int = position, h: int = head
            ) -> torch.Tensor:
                x[0, p, h] = s[p, h]
                return x

            expected = moved(names[row.layer], put)
            looks = pattern[row.layer, head, at]
            assert row.part == f"L{row.layer}H{head}"
        assert row.effect == pytest.approx(expected, abs=1e-5)
        assert row.attention == pytest.approx(float(looks[position]), abs=1e-6)
    assert len(table) == 10 * 4
    assert (table["effect"] > 1e-3).mean() > 0.7


def test_rank_correlation() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random(9), rng.integers(0, 4, 9).astype(float)
    assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
    assert rank_correlation(x, -x) == pytest.approx(-1.0)
    assert np.isnan(rank_correlation(x, np.full(9, 0.1)))
    assert np.isnan(rank_correlation(np.zeros(9), x))
    assert np.isnan(rank_correlation(x[:1], y[:1]))
    assert np.isnan(rank_correlation(x[:0], y[:0]))


def test_what_float32_rounds_is_a_tie() -> None:
    """An even row of attention stays even, whatever the last bits say."""
    noise = 0.1 + 1e-8 * np.arange(5)
    assert np.isnan(rank_correlation(noise, np.arange(5.0)))
    nearly, tied = np.array([0.1 + 1e-8, 0.1, 0.5]), np.array([0.1, 0.1, 0.5])
    y = np.array([1.0, 2.0, 3.0])
    assert rank_correlation(nearly, y) == pytest.approx(spearmanr(tied, y).statistic)
    assert rank_correlation(1e-9 * np.arange(5.0), np.arange(5.0)) == pytest.approx(1.0)
