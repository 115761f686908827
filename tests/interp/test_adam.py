"""Adam without torch's compiler: the same bits, and none of the seconds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler

from interp.adam import Adam


def moved(kind: Any, **options: Any) -> torch.Tensor:
    """The weights after 30 steps from the same beginning, with a falling rate."""
    weights = torch.linspace(-2, 3, 20, dtype=torch.float64).reshape(4, 5).requires_grad_()
    optimizer = kind([weights], lr=0.02, **options)
    schedule = lr_scheduler.CosineAnnealingLR(optimizer, 30)
    for _ in range(30):
        optimizer.zero_grad()
        (weights.sin() * torch.arange(5)).sum().backward()
        optimizer.step()
        schedule.step()
    return weights.detach()


@pytest.mark.parametrize("options", [{}, {"betas": (0.5, 0.9)}])
def test_it_moves_as_the_adam_of_torch(options: dict[str, Any]) -> None:
    assert torch.equal(moved(Adam, **options), moved(torch.optim.Adam, **options))


def test_its_decay_is_that_of_adamw() -> None:
    decayed = moved(Adam, weight_decay=0.1, decoupled_weight_decay=True)
    assert torch.equal(decayed, moved(torch.optim.AdamW, weight_decay=0.1))
    assert not torch.equal(decayed, moved(Adam))


@pytest.mark.parametrize("method", ["add_param_group", "step", "zero_grad"])
def test_its_methods_do_not_ask_for_the_compiler(method: str) -> None:
    """The wrapper that would import it names its module."""
    assert "_compile" in torch.optim.AdamW.zero_grad.__code__.co_filename
    assert "_compile" not in getattr(Adam, method).__code__.co_filename
