"""Kernel attention against the loop over queries and keys."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import TypeCheckError

from models.errors import UserError
from models.transformer.nadaraya_watson import Kernel, kernel_attention

FORMS: dict[Kernel, Callable[[float], float]] = {
    "gaussian": lambda d: math.exp(-(d**2) / 2),
    "boxcar": lambda d: float(d <= 1),
    "epanechnikov": lambda d: max(0.0, 1 - d),
}


@pytest.mark.parametrize("kernel", FORMS)
@pytest.mark.parametrize("width", [1.0, 0.4])
def test_kernel_attention_is_the_loop(kernel: Kernel, width: float) -> None:
    generator = torch.Generator().manual_seed(3)
    queries, keys, values = (
        4 * torch.rand(count, generator=generator, dtype=torch.float64) for count in (6, 9, 9)
    )
    queries[0] = 50.0  # far from every key
    out, weights = kernel_attention(queries, keys, values, kernel, width)
    for i, query in enumerate(queries.tolist()):
        seen = [FORMS[kernel](abs(query - key) / width) for key in keys.tolist()]
        if sum(seen) == 0:
            assert kernel == "gaussian" or weights[i].sum() == out[i] == 0
            continue
        expected = [weight / sum(seen) for weight in seen]
        assert weights[i].tolist() == pytest.approx(expected)
        mean = sum(w * v for w, v in zip(expected, values.tolist(), strict=True))
        assert float(out[i]) == pytest.approx(mean)
    sums = weights.sum(dim=1)
    assert ((sums - 1).abs().lt(1e-9) | sums.eq(0)).all()


def test_kernel_attention_on_vectors() -> None:
    """Keys at distance 0 and 0.5 of the query: Epanechnikov gives them 1 and 1/2."""
    keys = torch.tensor([[0.0, 0.0], [0.3, 0.4], [3.0, 4.0]])
    values = torch.tensor([[3.0, 0.0], [0.0, 3.0], [9.0, 9.0]])
    out, weights = kernel_attention(keys[:1], keys, values, "epanechnikov")
    torch.testing.assert_close(weights, torch.tensor([[2 / 3, 1 / 3, 0.0]]))
    torch.testing.assert_close(out, torch.tensor([[2.0, 1.0]]))


def test_a_kernel_that_is_none() -> None:
    x = torch.zeros(2)
    unknown: Any = "cubic"
    with pytest.raises((UserError, TypeCheckError), match="cubic"):  # what is checked in tests
        kernel_attention(x, x, x, unknown)
    with pytest.raises(UserError, match="must be positive"):
        kernel_attention(x, x, x, "boxcar", 0.0)
