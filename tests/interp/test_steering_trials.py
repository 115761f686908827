"""Trials of steering on arrays alone: a number that is read off one direction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from interp.probing.steering_trials import SteeringTrials, outcomes

KS = np.array([-2, -1, 1, 2])
WORDS, WIDTH = 7, 8


def read(*hooks: tuple[str, Callable[..., torch.Tensor]]) -> np.ndarray:
    """The number in direction 0 after the last position, rounded; of the first word none."""
    x = torch.arange(float(WORDS)).repeat(len(KS))[:, None, None] * torch.eye(WIDTH)[0]
    for name, change in hooks:
        assert name == "here"
        x = change(x, None)
    value = x[:, -1, 0].round().double().view(len(KS), WORDS).numpy().copy()
    value[:, 0] = np.nan
    return value


def test_what_is_read_moves_by_k_along_its_direction_and_not_along_others() -> None:
    trials = SteeringTrials(KS, read)
    amount = torch.as_tensor(KS).repeat_interleave(WORDS)[:, None].double()
    table = trials.along("here", torch.eye(WIDTH, dtype=torch.float64)[0], amount)
    value = table.set_index(["method", "measure", "amount"])["value"].sort_index()
    assert value["steered", "moved by k"].tolist() == [1.0] * len(KS)
    choice = table.set_index(["method", "measure", "amount"])["choice"].sort_index()
    assert choice["steered", "moved by k"].tolist() == [0.75] * len(KS)  # the first has no number
    assert value["steered", "shift"].tolist() == KS.tolist()
    assert value["random direction", "moved by k"].mean() < 0.5
    words = table.set_index(["method", "measure"])["words"].sort_index()
    assert set(words["steered", "shift"]) == {WORDS - 1}
    assert set(words["steered", "moved by k"]) == {WORDS // 2}


def test_any_change_is_measured_against_the_run_without() -> None:
    table = SteeringTrials(KS, read).by("here", lambda x, hook: x + 1)
    moved = table.set_index(["measure", "amount"])["value"]
    assert moved["shift"].tolist() == [1.0] * len(KS)
    assert moved["moved by k", 1] == 1
    assert moved["moved by k", 2] == 0


def test_outcomes_by_hand() -> None:
    """Two draws of two words; the second word ends in one of the draws alone."""
    shift = np.array([[[1.0, np.nan]], [[1.0, 1.0]]])
    table = outcomes(np.array([1]), shift).set_index("measure")
    assert table.loc["moved by k", ["choice", "value"]].tolist() == [1.0, 0.5]
    assert table.loc["shift", "value"] == 1
    assert table.loc["shift", "words"] == 1.5
    nothing = outcomes(np.array([1]), np.full((1, 1, 3), np.nan)).set_index("measure")
    assert nothing.loc["moved by k", "value"] == 0
    assert np.isnan(nothing.loc["shift", "value"])
    assert nothing.loc["shift", "words"] == 0
