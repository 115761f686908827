"""Trials of erasers on arrays alone: a readout that needs one variable and no other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from interp.probing.erasure_trials import columns, erasure_trials
from interp.probing.probes import Target

WORDS, POSITIONS, WIDTH = 60, 5, 6
Hook = tuple[str, Callable[..., torch.Tensor]]


def planted() -> tuple[torch.Tensor, dict[str, Target]]:
    """Activations that hold a count in direction 0 and a category in direction 1, and noise."""
    rng = np.random.default_rng(0)
    shape = (WORDS, POSITIONS)
    mask = np.ones(shape, dtype=bool)
    mask[::3, 3:] = False
    count, category = rng.integers(0, 5, shape), rng.integers(0, 2, shape)
    x = rng.normal(size=(*shape, WIDTH))
    x[..., 0], x[..., 1] = count, category
    targets = {
        "count": Target(count, mask, "count"),
        "category": Target(category, mask, "category"),
        "constant": Target(np.ones(shape, dtype=int), mask, "count"),
    }
    return torch.as_tensor(x, dtype=torch.float32), targets


def tried() -> pd.DataFrame:
    x, targets = planted()
    truth = targets["count"].values[:, 0]

    def right(*hooks: Hook) -> np.ndarray:
        changed = x
        for name, change in hooks:
            assert name == "here"
            changed = change(changed, None)
        return (changed[:, 0, 0].round().numpy() == truth).astype(float)

    train = np.arange(WORDS) % 3 > 0
    told: list[str] = []
    table = erasure_trials({"here": x}, targets, train, right, report=told.append)
    assert told == ["here"]
    return table


def test_only_erasing_what_is_needed_does_harm() -> None:
    table = tried()
    right = table[table["measure"] == "words right"].set_index(["variable", "method"])["value"]
    assert right["count", "none"] == right["category", "none"] == 1
    assert right["count", "LEACE"] < 0.5
    assert right["category", "LEACE"] > 0.9
    assert right["count", "LEACE"] < right["count", "random directions"] < 1
    assert "constant" not in right.index.get_level_values("variable")


def test_the_probe_finds_it_before_and_not_after() -> None:
    table = tried()
    probes = table[table["measure"].str.startswith("probe ")]
    score = probes.set_index(["variable", "measure", "method"])["value"]
    assert score["count", "probe R2", "none"] > 0.99
    assert score["count", "probe R2", "LEACE"] < 0.1
    assert score["category", "probe accuracy", "none"] == 1
    assert score["category", "probe accuracy", "LEACE"] < 0.7
    assert set(probes["words"]) == {-(-WORDS // 3)}  # those that the probe did not see


def test_controls_are_of_the_positions_where_a_variable_is_known() -> None:
    """Of one rank, but known elsewhere: the directions are drawn in other activations."""
    x, targets = planted()
    count = targets["count"]
    fewer = Target(count.values, count.mask & (np.arange(POSITIONS) < 2), "count")
    train = np.ones(WORDS, dtype=bool)
    train[0] = False

    def size(*hooks: Hook) -> np.ndarray:
        changed = hooks[0][1](x, None) if hooks else x
        return changed.abs().sum(dim=(1, 2)).double().numpy()

    table = erasure_trials({"here": x}, {"all": count, "few": fewer}, train, size)
    right = table[table["measure"] == "words right"].set_index(["variable", "method"])["value"]
    assert right["all", "random directions"] != right["few", "random directions"]


def test_a_category_is_a_column_for_each_value() -> None:
    _, targets = planted()
    mask = targets["category"].mask
    one_hot = columns(targets["category"], mask)
    assert one_hot.shape == (mask.sum(), 2)
    assert one_hot.sum(dim=1).eq(1).all()
    assert columns(targets["count"], mask)[:, 0].tolist() == targets["count"].values[mask].tolist()


def test_nothing_varies_and_nothing_is_tried() -> None:
    x, targets = planted()
    train = np.arange(WORDS) % 2 == 0
    constant = {"constant": targets["constant"]}
    assert erasure_trials({"here": x}, constant, train, lambda *hooks: np.ones(WORDS)).empty
