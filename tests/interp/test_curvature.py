"""Curvature against closed forms: a quadratic, finite differences, and torch's own Hessian."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import SMALL, stir
from torch import Tensor

from interp.training.curvature import (
    Weights,
    hessian_times,
    plane,
    random_direction,
    second_derivative,
    sharpest,
)
from models.base import build
from models.languages import language


def quadratic(a: Tensor) -> tuple[Weights, Tensor]:
    """Weights in two pieces, x = (2 x 3, then 4 numbers), for the loss x.A x / 2."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(10, generator=generator, dtype=torch.float64)
    return {"matrix": x[:6].view(2, 3), "vector": x[6:]}, a


def flat(weights: Weights) -> Tensor:
    return torch.cat([weights["matrix"].reshape(-1), weights["vector"]])


@pytest.fixture
def symmetric() -> Tensor:
    """Its eigenvalues are -9 to 5. The largest is not the farthest from 0."""
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(10, 10)))[0]
    values = [-9.0, -3, -1, 0, 0.5, 1, 2, 3, 4, 5]
    return torch.as_tensor(basis * values @ basis.T)


def test_a_quadratic_has_its_own_matrix(symmetric: Tensor) -> None:
    weights, a = quadratic(symmetric)

    def loss(w: Weights) -> Tensor:
        return flat(w) @ a @ flat(w) / 2

    d = random_direction(weights, torch.Generator().manual_seed(2)) | {
        "vector": torch.arange(4.0, dtype=torch.float64)
    }
    torch.testing.assert_close(flat(hessian_times(loss, weights, d)), a @ flat(d))
    expected = float(flat(d) @ a @ flat(d))
    assert second_derivative(loss, weights, d) == pytest.approx(expected, rel=1e-12)
    assert sharpest(loss, weights) == pytest.approx(5, rel=1e-6)


def test_of_one_weight_it_is_the_second_derivative() -> None:
    weights = {"w": torch.tensor([2.0], dtype=torch.float64)}
    assert sharpest(lambda w: (w["w"] ** 3).sum(), weights) == pytest.approx(12)


def test_of_a_loss_that_is_no_number_there_is_no_eigenvalue() -> None:
    weights = {"w": torch.ones(3, 2, dtype=torch.float64)}
    assert np.isnan(sharpest(lambda w: w["w"].square().sum() * torch.nan, weights))


def test_on_a_transformer_it_is_torchs_and_that_of_finite_differences() -> None:
    model = stir(build(SMALL, language("anbn").vocabulary)).double().eval()
    tokens = torch.tensor([[0, 2, 2, 3, 3], [0, 3, 2, 2, 3]])
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(w: Weights) -> Tensor:
        return torch.func.functional_call(model, dict(w), (tokens,)).square().mean()

    d = random_direction(weights, torch.Generator().manual_seed(0))
    step = 1e-4
    ahead, behind = (
        float(loss({n: w + s * step * d[n] for n, w in weights.items()})) for s in (1, -1)
    )
    differences = (ahead - 2 * float(loss(weights)) + behind) / step**2
    assert second_derivative(loss, weights, d) == pytest.approx(differences, rel=1e-4)
    # Of the unembedding alone, torch has the whole matrix.
    own = {n: w for n, w in weights.items() if n.startswith("unembed")}

    def of_own(w: Weights) -> Tensor:
        return loss(weights | dict(w))

    shapes = [(n, w.shape, w.numel()) for n, w in own.items()]

    def of_vector(vector: Tensor) -> Tensor:
        parts = vector.split([size for *_, size in shapes])
        return of_own({n: p.view(s) for (n, s, _), p in zip(shapes, parts, strict=True)})

    vector = torch.cat([w.reshape(-1) for w in own.values()])
    whole = torch.autograd.functional.hessian(of_vector, vector)
    largest = float(torch.linalg.eigvalsh(whole)[-1])
    assert sharpest(of_own, own) == pytest.approx(largest, rel=1e-4)


def test_a_direction_is_as_long_as_each_filter_and_moves_no_vector() -> None:
    weights = {
        "w": torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(3)),
        "kernel": torch.ones(3, 2, 4, dtype=torch.float64),
        "bias": torch.ones(5, dtype=torch.float64),
    }
    weights["w"][2] = 0  # a row of zeros stays one
    d = random_direction(weights, torch.Generator().manual_seed(0))
    torch.testing.assert_close(d["w"].norm(dim=1), weights["w"].norm(dim=1))
    torch.testing.assert_close(
        d["kernel"].flatten(1).norm(dim=1), torch.full((3,), 8.0).double() ** 0.5
    )
    assert not d["bias"].any()
    larger = {name: 10 * weight for name, weight in weights.items()}
    again = random_direction(larger, torch.Generator().manual_seed(0))
    torch.testing.assert_close(again["w"], 10 * d["w"])


def test_the_plane_holds_the_loss_itself() -> None:
    weights = {"w": torch.tensor([[3.0, 1.0]], dtype=torch.float64)}
    one, two = ({"w": torch.eye(2, dtype=torch.float64)[[i]]} for i in (0, 1))
    table = plane(lambda w: w["w"][0, 0] ** 2 + 10 * w["w"][0, 1], weights, one, two, 2.0, 5)
    assert len(table) == 25
    expected = (3 + table["a"]) ** 2 + 10 * (1 + table["b"])
    np.testing.assert_allclose(table["loss"], expected, rtol=1e-12)
    assert sorted(table["a"].unique()) == [-2, -1, 0, 1, 2]
