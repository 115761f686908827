"""Influence of training lines: each method against a closed form or brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from interp.influence.ekfac import EKFAC
from interp.influence.gradients import Gradients
from interp.influence.methods import cosine, dot, fisher, tracin
from interp.influence.scores import datamodel, lds, lds_interval, precision_at, predicted

LINES, TARGETS, TIME = 7, 3, 4


def drawn(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Small(nn.Module):
    """Two linear maps, the first with a bias, at every position; and a scale, which is none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2, bias=False)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x))) * self.scale


def values(model: nn.Module, count: int, seed: int) -> Iterator[Tensor]:
    return (
        model(drawn(TIME, 3, seed=seed + i)).square().sum() + model(drawn(1, 3, seed=seed)).sum()
        for i in range(count)
    )


@pytest.fixture(scope="module")
def model() -> Small:
    return Small()


@pytest.fixture(scope="module")
def both(model: Small) -> tuple[Gradients, Gradients]:
    targets, lines = (
        Gradients.of_each(model, values(model, count, seed))
        for count, seed in ((TARGETS, 10), (LINES, 50))
    )
    return targets, lines


def test_a_gradient_of_each(model: Small) -> None:
    made = Gradients.of_each(model, values(model, 2, 10))
    for row, value in enumerate(values(model, 2, 10)):
        model.zero_grad()
        value.backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None
            torch.testing.assert_close(made.by_name[name][row], parameter.grad)
    with pytest.raises(ValueError, match="at least one"):
        Gradients.of_each(model, [])


def test_products_are_first_order_changes(model: Small, both: tuple[Gradients, Gradients]) -> None:
    """A small step of gradient descent on one line moves each value by ``dot`` times the step."""
    targets, lines = both
    before, rate = torch.stack(list(values(model, TARGETS, 10))).detach(), 1e-7
    kept = {name: p.detach().clone() for name, p in model.named_parameters()}
    moved = []
    for line in range(LINES):
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(kept[name] - rate * lines.by_name[name][line])
        moved.append((torch.stack(list(values(model, TARGETS, 10))).detach() - before) / rate)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(kept[name])
    torch.testing.assert_close(dot(targets, lines), torch.stack(moved, dim=1), rtol=1e-4, atol=1e-4)
    norms = targets.flat.norm(dim=1)[:, None] * lines.flat.norm(dim=1)
    torch.testing.assert_close(cosine(targets, lines), dot(targets, lines) / norms)


def test_tracin_adds_up_to_what_training_changed() -> None:
    """Of plain gradient descent with small steps the influences of all lines sum to the change."""
    model = Small()
    before, rate, checkpoints = list(values(model, TARGETS, 10)), 1e-6, []
    for _ in range(5):
        targets = Gradients.of_each(model, values(model, TARGETS, 10))
        lines = Gradients.of_each(model, values(model, LINES, 50))
        checkpoints.append((rate, targets, lines))
        with torch.no_grad():
            for name, p in model.named_parameters():
                p -= rate * lines.by_name[name].sum(dim=0)
    after = list(values(model, TARGETS, 10))
    change = torch.stack(after).detach() - torch.stack(before).detach()
    torch.testing.assert_close(tracin(checkpoints).sum(dim=1), change, rtol=1e-3, atol=1e-9)
    with pytest.raises(ValueError, match="at least one"):
        tracin([])


def test_fisher_is_the_dense_inverse(both: tuple[Gradients, Gradients]) -> None:
    targets, lines = both
    g = lines.flat
    matrix = g.T @ g / len(g)
    damped = matrix + 0.1 * matrix.trace() / len(matrix) * torch.eye(len(matrix)).double()
    expected = -targets.flat @ torch.linalg.solve(damped, lines.flat.T)
    torch.testing.assert_close(fisher(targets, lines, lines), expected)


def test_ekfac_by_kronecker_products(model: Small, both: tuple[Gradients, Gradients]) -> None:
    """The basis of each map is written out, and the whole matrix inverted. The scale has no part.

    Outside the suite it was compared with kronfluence 1.0.1 on two runs of the lab. The scores have
    the other sign there, and differ by less than 1e-7 of the largest.
    """
    targets, lines = both
    fitted = EKFAC(model, values(model, LINES, 50))
    expected = torch.zeros(TARGETS, LINES, dtype=torch.float64)
    for name, part in (("first", model.first), ("last", model.last)):
        a, s = torch.zeros(()), torch.zeros(())
        for i in range(LINES):
            for x in (drawn(TIME, 3, seed=50 + i), drawn(1, 3, seed=50)):
                hidden = torch.tanh(model.first(x))
                inside = torch.cat([x, torch.ones(len(x), 1)], 1) if name == "first" else hidden
                out = part(x if name == "first" else hidden.detach()).detach().requires_grad_()
                rest = model.last(torch.tanh(out)) if name == "first" else out
                y = rest * model.scale
                value = y.square().sum() if len(x) == TIME else y.sum()
                (g,) = torch.autograd.grad(value, out)
                a, s = a + inside.T @ inside, s + g.T @ g
        basis = torch.kron(torch.linalg.eigh(s)[1], torch.linalg.eigh(a.detach())[1])

        def flat(of: Gradients, name: str = name) -> Tensor:
            weight = of.by_name[f"{name}.weight"]
            bias = of.by_name.get(f"{name}.bias")
            whole = weight if bias is None else torch.cat([weight, bias[..., None]], 2)
            return whole.flatten(1)

        squares = (flat(lines) @ basis).square().mean(0)
        damped = basis @ torch.diag(squares + 0.1 * squares.mean()) @ basis.T
        expected -= flat(targets) @ torch.linalg.solve(damped, flat(lines).T)
    torch.testing.assert_close(fitted(targets, lines), expected, rtol=1e-6, atol=1e-8)


def test_a_model_may_be_one_map() -> None:
    model, x = nn.Linear(3, 1).double(), drawn(4, 3, seed=1)
    whole = nn.Sequential(model)
    found = [
        EKFAC(each, (each(row).sum().square() for row in x))(
            *(Gradients.of_each(each, (each(row).sum() for row in x)) for _ in "tl")
        )
        for each in (model, whole)
    ]
    torch.testing.assert_close(*found)


def test_ekfac_needs_a_linear_map() -> None:
    model = nn.Embedding(3, 2)
    with pytest.raises(ValueError, match="linear maps"):
        EKFAC(model, (model(torch.tensor([i])).sum() for i in range(2)))


# -- scores ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half() -> np.ndarray:
    return np.random.default_rng(0).random((60, 10)) < 0.5


def test_the_true_influences_score_one(half: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    truth = rng.normal(size=(4, 10))
    found = np.exp(predicted(truth, half))  # any rising function of the sums
    np.testing.assert_allclose(lds(found, predicted(truth, half)), 1)
    np.testing.assert_allclose(lds(found, predicted(-truth, half)), -1)
    assert lds_interval(found, predicted(truth, half)) == pytest.approx((1, 1, 1))
    mean, low, high = lds_interval(found, predicted(rng.normal(size=(4, 10)), half))
    assert low < mean < high
    assert lds(found, np.zeros_like(found)).tolist() == [0, 0, 0, 0]
    assert lds(np.log(found), datamodel(np.log(found), half)).min() > 0.95


def test_a_datamodel_of_noise_is_at_chance() -> None:
    """Over many targets that no line has a part in, in few trainings with half of the lines."""
    rng = np.random.default_rng(3)
    kept = np.zeros((40, 60), dtype=bool)
    for row in kept:
        row[rng.permutation(60)[:30]] = True
    noise = rng.normal(size=(40, 300))
    assert lds(noise, datamodel(noise, kept)).mean() == pytest.approx(0, abs=0.04)


def test_lds_is_spearman_s() -> None:
    rng = np.random.default_rng(2)
    one, other = rng.integers(5, size=(20, 3)).astype(float), rng.normal(size=(20, 3))
    expected = [spearmanr(one[:, i], other[:, i]).statistic for i in range(3)]
    np.testing.assert_allclose(lds(one, other), expected)


def test_precision_is_the_mean_over_orders_of_ties() -> None:
    scores, culprits = np.array([2.0, 1.0, 1.0, 1.0, 0.0]), np.array([0, 1, 0, 1, 1], dtype=bool)
    for k in range(1, 6):
        shares = []
        for order in permutations(range(5)):
            by = sorted(order, key=lambda line: -scores[line])
            shares.append(culprits[by[:k]].mean())
        assert precision_at(scores, culprits, k) == pytest.approx(np.mean(shares))
