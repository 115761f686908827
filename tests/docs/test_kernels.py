"""Kernel attention against the loop over queries and keys; what is drawn is what it is."""

from __future__ import annotations

import math
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "docs" / "kernels.py"
kernel_attention = runpy.run_path(str(SCRIPT))["kernel_attention"]
FORMS: dict[str, Callable[[float], float]] = {
    "gaussian": lambda d: math.exp(-(d**2) / 2),
    "boxcar": lambda d: float(d <= 1),
    "epanechnikov": lambda d: max(0.0, 1 - d),
}


@pytest.mark.parametrize("kernel", FORMS)
@pytest.mark.parametrize("width", [1.0, 0.4])
def test_kernel_attention_is_the_loop(kernel: str, width: float) -> None:
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


def test_the_kernels_that_are_drawn_are_the_kernels() -> None:
    """Two keys, one of them at the query: their weights are as the drawn kernel says."""
    made = runpy.run_path(str(SCRIPT))
    for kernel, rows in made["forms"]().groupby("kernel"):
        keys = torch.stack([torch.zeros(len(rows)), torch.tensor(rows["x"].to_numpy()).float()], 1)
        for (here, there), y in zip(keys, rows["y"], strict=True):
            pair = torch.stack([here, there])
            _, weights = kernel_attention(here[None], pair, pair, kernel, made["WIDTH"])
            assert float(weights[0, 1] / weights[0, 0]) == pytest.approx(y, abs=1e-6)


def test_the_picture_of_the_page_is_what_the_script_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kernels.py", str(tmp_path / "kernels.png")])
    made = runpy.run_path(str(SCRIPT), run_name="__main__")
    curves, weights = made["attended"]()
    assert np.allclose(weights.groupby(["kernel", "query"])["weight"].sum().round(6) % 1, 0)
    assert set(curves["kernel"]) == set(weights["kernel"]) == set(made["KERNELS"])
    drawn, shown = tmp_path / "kernels.png", SCRIPT.parent / "pages" / "kernels.png"
    assert drawn.read_bytes()[:24] == shown.read_bytes()[:24]  # its width and height among them
