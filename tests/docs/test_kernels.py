"""The picture of kernel attention: what is drawn is what the kernels are."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from models.transformer.nadaraya_watson import kernel_attention

SCRIPT = Path(__file__).parents[2] / "docs" / "kernels.py"


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
