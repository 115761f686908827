"""LEACE against its theorems, a brute force, its closed form and EleutherAI's package."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

from interp.probing.erasure import Eraser

Data = tuple[torch.Tensor, torch.Tensor]


def planted(kind: str) -> Data:
    """Correlated activations [600, 10] that hold a variable, and the variable as columns."""
    generator = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    category = torch.randint(0, 4, (600,), generator=generator).clamp(max=2)  # 2 is commonest
    z = category[:, None].double() if kind == "count" else torch.eye(3).double()[category]
    return draw(600, 10) @ draw(10, 10) + 3 * z @ draw(z.shape[1], 10) + 5, z


@pytest.fixture(params=["count", "category"])
def data(request: pytest.FixtureRequest) -> Data:
    return planted(request.param)


def covariance(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(0)).T @ (z - z.mean(0)) / len(x)


def test_no_linear_probe_does_better_than_a_constant(data: Data) -> None:
    x, z = data
    eraser = Eraser.fit(x, z)
    erased = eraser(x)
    assert eraser.rank == (1 if z.shape[1] == 1 else 2)  # the columns of categories sum to one
    assert covariance(x, z).abs().max() > 0.1
    assert covariance(erased, z).abs().max() < 1e-10
    for probe in (LinearRegression(), Ridge(alpha=1.0)):
        assert probe.fit(x, z).score(x, z) > 0.4
        assert probe.fit(erased, z).score(erased, z) == pytest.approx(0, abs=1e-10)


def test_no_classifier_finds_the_category() -> None:
    x, z = planted("category")
    erased, labels = Eraser.fit(x, z)(x), z.argmax(1).numpy()
    logistic = LogisticRegression(max_iter=2000, tol=1e-8)
    majority = np.bincount(labels).max() / len(labels)
    assert logistic.fit(x, labels).score(x, labels) > majority + 0.2
    assert logistic.fit(erased, labels).score(erased, labels) == majority
    assert np.abs(logistic.coef_).max() < 1e-4


def test_once_is_enough_and_the_mean_stays(data: Data) -> None:
    x, z = data
    eraser = Eraser.fit(x, z)
    assert torch.allclose(eraser(eraser(x)), eraser(x), atol=1e-10)
    assert torch.allclose(eraser(x).mean(0), x.mean(0), atol=1e-10)


def test_nothing_that_erases_changes_less(data: Data) -> None:
    """Every affine map that takes the covariance away is this one plus what sees no covariance."""
    x, z = data
    eraser, cross = Eraser.fit(x, z), covariance(x, z)
    blind = torch.eye(10).double() - cross @ torch.linalg.pinv(cross)
    orthogonal = x - (x - x.mean(0)) @ (torch.eye(10).double() - blind)
    assert covariance(orthogonal, z).abs().max() < 1e-10
    assert eraser.changed(x) < 0.9 * float((orthogonal - x).square().sum()) / float(
        (x - x.mean(0)).square().sum()
    )
    generator = torch.Generator().manual_seed(0)
    for size in (0.01, 0.1, 1.0):
        for _ in range(20):
            more = size * torch.randn(10, 10, generator=generator, dtype=torch.float64) @ blind
            other = eraser(x) + (x - x.mean(0)) @ more.T
            assert covariance(other, z).abs().max() < 1e-9
            assert (other - x).square().sum() > (eraser(x) - x).square().sum()


def test_it_is_the_closed_form(data: Data) -> None:
    x, z = data
    sigma = covariance(x, x)
    variance, axes = torch.linalg.eigh(sigma)
    root = axes @ variance.sqrt().diag() @ axes.T
    whitened = torch.linalg.inv(root) @ covariance(x, z)
    projection = whitened @ torch.linalg.pinv(whitened, rtol=1e-9)
    expected = x - (x - x.mean(0)) @ (root @ projection @ torch.linalg.inv(root)).T
    assert torch.allclose(Eraser.fit(x, z)(x), expected, atol=1e-9)


def test_it_is_that_of_concept_erasure(data: Data) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is compiled by a deprecated function
        from concept_erasure import LeaceEraser
    x, z = data
    other = LeaceEraser.fit(x, z, shrinkage=False, constrain_cov_trace=False, svd_tol=1e-6)
    assert torch.allclose(Eraser.fit(x, z)(x), other(x), atol=1e-9)


def test_directions_without_variance_are_left_alone() -> None:
    x, z = planted("count")
    wide = torch.cat([x, x[:, :3], torch.ones(600, 2).double()], dim=1)
    eraser = Eraser.fit(wide, z)
    erased = eraser(wide)
    assert covariance(erased, z).abs().max() < 1e-9
    assert torch.allclose(erased[:, 10:13], erased[:, :3], atol=1e-9)
    assert torch.equal(erased[:, 13:], wide[:, 13:])
    assert Eraser.fit(wide, torch.ones(600, 1)).rank == 0


def test_random_directions_are_as_many_in_the_same_metric_and_leave_the_variable() -> None:
    x, z = planted("category")
    eraser = Eraser.random(x, 2, seed=0)
    assert eraser.rank == 2
    assert torch.linalg.matrix_rank(covariance(eraser(x), eraser(x))) == 8
    whitening = torch.linalg.inv(covariance(x, x))
    lost = torch.trace(whitening @ (covariance(x, x) - covariance(eraser(x), eraser(x))))
    assert float(lost) == pytest.approx(2)
    assert torch.equal(eraser.left, Eraser.random(x, 2, seed=0).left)
    assert not torch.allclose(eraser.left, Eraser.random(x, 2, seed=1).left)
    assert LinearRegression().fit(eraser(x), z).score(eraser(x), z) > 0.3


def test_the_hook_keeps_shape_and_type() -> None:
    x, z = planted("count")
    eraser = Eraser.fit(x.float(), z)
    stream = x.float().reshape(6, 100, 10)
    hooked = eraser.hook(stream, None)
    assert hooked.dtype == torch.float32
    assert torch.equal(hooked, eraser(x.float()).reshape(6, 100, 10))
    assert eraser.changed(x.float()) == pytest.approx(
        float((hooked - stream).square().sum() / (x - x.mean(0)).square().sum()), rel=1e-5
    )
