"""Sinusoids that are drawn against the lectures' formula, number by number; also of fractions."""

from __future__ import annotations

import math
import runpy
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "docs" / "sinusoids.py"
MADE = runpy.run_path(str(SCRIPT))
WIDTH = MADE["WIDTH"]


def formula(position: float) -> list[float]:
    """PE of a position, a sine and a cosine for each frequency."""
    angles = [position / 10_000 ** (2 * i / WIDTH) for i in range(WIDTH // 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def test_the_values_are_the_formula_s() -> None:
    drawn = MADE["values"]().set_index(["position", "dimension"])["value"].unstack()
    assert len(drawn) == MADE["LAST"] * MADE["PARTS"] + 1
    assert {0.0, 0.25, 0.5, 0.75, 1.0, 40.0} <= {*drawn.index}
    for position, row in drawn.iterrows():
        assert row.tolist() == pytest.approx(formula(float(position)), abs=1e-12)


@pytest.mark.parametrize("k", [0.0, 0.5, 1.0, 5.0, 40.0])
def test_one_matrix_is_the_step_from_every_position(k: float) -> None:
    matrix = MADE["step"](k)
    assert matrix.shape == (WIDTH, WIDTH)
    for position in (0.0, 0.3, 1.0, 17.25, 1000.0):
        moved = matrix @ torch.tensor(formula(position), dtype=torch.float64)
        assert moved.tolist() == pytest.approx(formula(position + k), abs=1e-9)


def test_the_picture_of_the_page_is_what_the_script_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, shown = tmp_path / "sinusoids.png", SCRIPT.parent / "pages" / "sinusoids.png"
    monkeypatch.setattr("sys.argv", ["sinusoids.py", str(drawn)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert drawn.read_bytes()[:24] == shown.read_bytes()[:24]  # its width and height among them
