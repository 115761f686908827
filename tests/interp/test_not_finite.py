"""What is not finite is named with its site, by every lens that would compute with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_lenses_on_a_second_device import STREAM, Asked

from interp.dictionaries.training import Recipe, trained
from interp.influence.ekfac import EKFAC
from interp.influence.gradients import Gradients
from interp.influence.methods import fisher
from interp.model import activations
from interp.probing.description_length import code_lengths
from interp.probing.erasure import Eraser
from interp.probing.perceptrons import Perceptrons
from interp.probing.probes import Target, probe_sites

CPU = torch.device("cpu")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_activations_name_their_site(wrong: float) -> None:
    asked = Asked.on(CPU, "plain")
    with torch.no_grad():
        asked.model.get_parameter("W_E")[2, 0] = wrong  # the embedding of a
    with pytest.raises(ValueError, match=rf"^{STREAM}: \d+ of 288 numbers are NaN or infinite$"):
        activations(asked.model, asked.clean, [STREAM])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_probe_takes_no_row_that_is_not_finite(wrong: float) -> None:
    """It was fitted all the same, and told as 0.975 right."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 4, 3))
    target = Target((x[..., 0] > 0).astype(int), np.ones((20, 4), dtype=bool), "category")
    train = np.arange(20) < 12
    for row in (0, 19):  # one that fits, one that is read
        broken = x.copy()
        broken[row, 1, 2] = wrong
        with pytest.raises(ValueError, match=r"^the site: 1 of"):
            probe_sites({"the site": broken}, {"a": target}, train)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_no_other_reader_of_activations_does(wrong: float) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4, 3)), rng.integers(2, size=(20, 4))
    x[3, 1, 2] = wrong
    target, rows = Target(y, np.ones((20, 4), dtype=bool), "category"), x.reshape(80, 3)
    with pytest.raises(ValueError, match=r"^the site: 1 of 240 numbers are NaN or infinite$"):
        code_lengths({"the site": x}, {"a": target})
    with pytest.raises(ValueError, match="1 of 240 numbers"):
        Eraser.fit(torch.as_tensor(rows), torch.as_tensor(y.reshape(80, 1)))
    with pytest.raises(ValueError, match="1 of 240 numbers"):
        Perceptrons.fit(rows[None], y.reshape(80), "category", 0)


def test_arrays_that_processes_share_are_read_without_a_word() -> None:
    """Joblib gives large arrays to its workers read-only. Torch would warn of such an array."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(20, 4, 3)), rng.integers(2, size=(20, 4))
    x.setflags(write=False)
    target = Target(y, np.ones((20, 4), dtype=bool), "category")
    torch.set_warn_always(True)
    try:
        assert len(code_lengths({"the site": x}, {"a": target})) == 1
        assert len(probe_sites({"the site": x}, {"a": target}, np.arange(20) < 12))
    finally:
        torch.set_warn_always(False)


def test_gradients_that_vanish_are_told() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    x = torch.ones(4, 3)
    nothing = Gradients.of_each(model, (model(row).sum() * 0 for row in x))
    with pytest.raises(ValueError, match="no curvature to correct by"):
        fisher(nothing, nothing, nothing)
    with pytest.raises(ValueError, match="no curvature to correct by"):
        EKFAC(model, (model(row).sum() * 0 for row in x))


def test_a_map_on_which_no_loss_depends_has_no_part() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1))
    with torch.no_grad():
        model[2].weight.zero_()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    seen = EKFAC(model, (model(row).sum() for row in x))
    gradients = Gradients.of_each(model, (model(row).sum() for row in x))
    assert torch.isfinite(seen(gradients, gradients)).all()


def test_dictionaries_take_float64_and_nothing_that_is_not_finite() -> None:
    x = torch.randn(400, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    recipe = Recipe("topk", width=8, active=2, steps=3)
    (double,), (single,) = (trained(values, recipe, [0]) for values in (x, x.float()))
    torch.testing.assert_close(double.directions, single.directions, rtol=0, atol=0)
    x[3, 2] = torch.nan
    with pytest.raises(ValueError, match=r"^activations: 1 of 2400 numbers"):
        trained(x, recipe, [0])
