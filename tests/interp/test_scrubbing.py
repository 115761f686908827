"""Causal scrubbing against a network whose loss is the activation itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from interp.causal import scrubbing
from interp.causal.scrubbing import ANY, scrubbed
from models.transformer.model import HookedTransformer


class Shows(HookedRootModule):
    """Its activation is the token, and its logit too."""

    def __init__(self) -> None:
        super().__init__()
        self.hook_held = HookPoint()
        self.cfg = type("Config", (), {})
        self.setup()

    def forward(self, tokens: Tensor) -> Tensor:
        return self.hook_held(tokens[..., None].double())


def asked(
    hypothesis: np.ndarray, weights: np.ndarray | None = None
) -> dict[tuple[str, str], float]:
    """The tokens 0, 1, ..., n - 1, each the last of a word; the loss is the distance to the own."""
    count = len(hypothesis)
    tokens = torch.stack([torch.zeros(count).long(), torch.arange(count)], dim=1)
    table = scrubbed(
        Shows(),
        "hook_held",
        tokens,
        torch.ones(count).long(),
        lambda logits: (logits[:, 0] - torch.arange(count)).abs(),
        {"same": hypothesis},
        np.ones(count) if weights is None else weights,
    )
    assert (table["low"].fillna(0) <= table["value"].fillna(0) + 1e-9).all()
    return dict(
        zip(zip(table["method"], table["measure"], strict=True), table["value"], strict=True)
    )


def test_neighbours_in_pairs_add_one() -> None:
    found = asked(np.arange(40) // 2)
    assert found["same", "loss added"] == pytest.approx(1)
    assert found[ANY, "loss added"] == pytest.approx(40 / 3, rel=0.3)
    expected = 1 - found["same", "loss added"] / found[ANY, "loss added"]
    assert found["same", "loss recovered"] == pytest.approx(expected)
    assert found[ANY, "loss recovered"] == 0


def test_a_word_without_another_of_its_value_is_left_out() -> None:
    found = asked(np.array([0, 0, 1, 2, 2]))
    assert found["same", "loss added"] == pytest.approx(1)
    only = asked(np.arange(5))
    assert ("same", "loss added") not in only


def test_words_count_by_their_weight() -> None:
    """Words 0 to 3 have a neighbour one away, words 4 to 7 one that is two away."""
    values = np.array([0, 0, 1, 1, 2, 3, 2, 3])
    assert asked(values)["same", "loss added"] == pytest.approx(1.5)
    weights = np.array([3.0] * 4 + [1.0] * 4)
    assert asked(values, weights)["same", "loss added"] == pytest.approx(1.25)


def test_nothing_to_lose_is_no_share() -> None:
    table = scrubbed(
        Shows(),
        "hook_held",
        torch.arange(6)[:, None],
        torch.zeros(6).long(),
        lambda logits: 0 * logits[:, 0],
        {"same": np.zeros(6)},
        np.ones(6),
    )
    rows = table.set_index(["method", "measure"])["value"]
    assert rows["same", "loss added"] == 0
    assert np.isnan(rows["same", "loss recovered"])


@pytest.mark.parametrize("mask", ["causal", "bidirectional"])
def test_words_that_are_run_together_lose_what_they_lose_alone(
    small_model: Callable[..., HookedTransformer],
    tokens: Tensor,
    monkeypatch: pytest.MonkeyPatch,
    mask: str,
) -> None:
    """Whole words, one at a time. Each has one other of its value, and a loss of its own."""
    monkeypatch.setattr(scrubbing, "ROWS", 3)
    model, hook = small_model(mask=mask).double().requires_grad_(False), "blocks.0.hook_resid_post"
    at, other, own = torch.tensor([5, 2, 7, 3]), [2, 3, 0, 1], torch.tensor([1.0, -2.0, 3.0, 5.0])

    def loss(logits: Tensor) -> Tensor:
        return logits[:, 3] * own

    table = scrubbed(model, hook, tokens, at, loss, {"same": np.arange(4) % 2}, np.ones(4))
    held = model.run_with_cache(tokens)[1][hook]
    added = []
    for word in range(4):
        put = held[other[word], at[other[word]]]

        def replace(x: Tensor, hook: object, word: int = word, put: Tensor = put) -> Tensor:
            x[0, at[word]] = put
            return x

        row = tokens[[word]]
        changed = model.run_with_hooks(row, fwd_hooks=[(hook, replace)]) - model(row)
        added.append(float(changed[0, at[word], 3] * own[word]))
    found = table.set_index(["method", "measure"])["value"]["same", "loss added"]
    assert found == pytest.approx(np.mean(added))
    assert abs(found) > 1e-3
