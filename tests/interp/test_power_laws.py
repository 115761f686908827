"""Laws of simulated losses: planted exponents come back, and other laws are not taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from interp.power_laws import LAWS, broken, exponent_interval, exponential, logarithmic, power

SIZES = np.geomspace(100, 1e5, 7)


def noisy(losses: np.ndarray, seeds: int, noise: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Sizes, losses and settings of runs whose losses scatter by a factor."""
    rng = np.random.default_rng(seed)
    scatter = np.exp(rng.normal(0, noise, len(SIZES) * seeds))
    return np.repeat(SIZES, seeds), np.repeat(losses, seeds) * scatter, np.repeat(range(7), seeds)


def best(size: np.ndarray, loss: np.ndarray) -> str:
    return min((law(size, loss) for law in LAWS.values()), key=lambda each: each.aicc).name


@pytest.mark.parametrize(
    ("alpha", "c"), [(0.1, 0.0), (0.5, 0.0), (1.5, 0.0), (0.5, 0.05), (1.0, 0.001)]
)
def test_without_noise_the_planted_power_law_comes_back(alpha: float, c: float) -> None:
    loss = 3 * SIZES**-alpha + c
    found = power(SIZES, loss)
    assert dict(found.parameters) == pytest.approx(
        {"a": 3, "alpha": alpha, "c": c}, rel=1e-3, abs=1e-9
    )
    np.testing.assert_allclose(found.predict(SIZES), loss, rtol=1e-5)


def test_the_rivals_come_back_too() -> None:
    found = exponential(SIZES, 2 * np.exp(-SIZES / 3000) + 0.01)
    assert dict(found.parameters) == pytest.approx({"a": 2, "b": 3000, "c": 0.01}, rel=1e-3)
    found = logarithmic(SIZES, 3 - 0.2 * np.log(SIZES))
    assert dict(found.parameters) == pytest.approx({"a": 3, "b": 0.2}, rel=1e-3)
    bent = np.where(SIZES < 2000, SIZES**-0.2, 2000**0.8 * SIZES**-1.0)
    found = broken(SIZES, bent)
    assert (found.parameters["alpha"], found.parameters["alpha_above"]) == pytest.approx(
        (0.2, 1), abs=0.2
    )


@pytest.mark.parametrize(
    ("losses", "name"),
    [
        (3 * SIZES**-0.5, "power"),
        (3 * SIZES**-0.8 + 2e-3, "power"),
        (2 * np.exp(-SIZES / 3000) + 0.01, "exponential"),
        (3 - 0.25 * np.log(SIZES), "logarithmic"),
        (np.where(SIZES < 3000, SIZES**-0.1, 3000**1.4 * SIZES**-1.5), "broken"),
        (np.full(7, 0.3), "none"),
    ],
)
def test_the_law_that_made_the_losses_describes_them_best(losses: np.ndarray, name: str) -> None:
    size, loss, _ = noisy(losses, 5, 0.05)
    assert best(size, loss) == name


def test_the_aicc_is_that_of_its_definition() -> None:
    size, loss, _ = noisy(3 * SIZES**-0.5, 3, 0.2, 1)
    slope, level = np.polyfit(np.log(size), np.log(loss), 1)
    rest = np.square(np.log(loss) - level - slope * np.log(size)).sum()
    n, k = len(size), 3  # a, alpha, and the scatter
    expected = n * np.log(rest / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1)
    assert power(size, loss).parameters["c"] == 0
    assert power(size, loss).aicc == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 5])
def test_the_interval_holds_the_planted_exponent(seeds: int) -> None:
    """Coverage in 30 simulations: 28 are expected; longer trials have 90 to 95%."""
    held, widths = 0, []
    for trial in range(30):
        size, loss, group = noisy(3 * SIZES**-0.5, seeds, 0.2, trial)
        low, high = exponent_interval(size, loss, group, resamples=60)
        held += low <= 0.5 <= high
        widths.append(high - low)
    assert held >= 26
    assert np.mean(widths) < 0.2  # it is no interval that holds everything


def test_a_single_seed_has_no_interval() -> None:
    size, loss, group = noisy(3 * SIZES**-0.5, 1, 0.2)
    assert np.isnan(exponent_interval(size, loss, group)).all()
