"""Does a loss fall with size as a power law, and with which exponent? Rival laws beside it.

All laws are fitted to the logarithm of the loss by least squares, because seeds scatter by a factor
and not by an amount. A law is judged by AICc (Hurvich and Tsai 1989), which charges for its
parameters. A power law that is told from few sizes, or from less than some decades of them, is
often no law (Stumpf and Porter 2012).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import least_squares
from scipy.special import expit
from scipy.stats import norm, t

Array = Float[np.ndarray, " point"]
RESAMPLES = 400


@dataclass(frozen=True)
class _Law:
    """A law that was fitted.

    Attributes:
        name: a name of ``LAWS``.
        parameters: the fitted parameters by name.
        aicc: the smaller, the better the law describes the points, its parameters charged for; NaN
            with too few points.
        predict: the loss at any size.
    """

    name: str
    parameters: Mapping[str, float]
    aicc: float
    predict: Callable[[Array], Array]


def _free(
    log_law: Callable[[np.ndarray, np.ndarray], np.ndarray],
    starts: list[list[float]],
    x: np.ndarray,
    y: np.ndarray,
    slopes: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """The best parameters from several starts, by Levenberg and Marquardt's method. ``log_law``
    takes them, and the sizes; ``slopes`` are its derivatives, [size, parameter]."""
    jac: Any = "2-point" if slopes is None else lambda theta: slopes(theta, x)
    fits = [
        least_squares(lambda theta: log_law(theta, x) - y, start, jac=jac, method="lm")
        for start in starts
    ]
    return min(fits, key=lambda fit: fit.cost).x


def _power(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    return np.logaddexp(theta[0] - theta[1] * np.log(size), theta[2])


def _power_slopes(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    falls = expit(theta[0] - theta[1] * np.log(size) - theta[2])
    return np.column_stack([falls, -np.log(size) * falls, 1 - falls])


def _exponential(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    return np.logaddexp(theta[0] - size / np.exp(theta[1]), theta[2])


def power(size: Array, loss: Array) -> _Law:
    """a N^-alpha + c, with c >= 0 (Kaplan et al. 2020).

    c is 0 unless AICc wants it: a constant that is not there would make the exponent too large.
    """
    y, x = np.log(loss), np.log(size)
    slope, level = np.polyfit(x, y, 1)
    straight = np.array([level, -slope, -np.inf])
    bent = _free(_power, [[level, -2 * slope, y.min() - 0.5]], size, y, _power_slopes)

    def law(theta: np.ndarray, count: int) -> _Law:
        named = {"a": float(np.exp(theta[0])), "alpha": float(theta[1])}
        named["c"] = float(np.exp(theta[2]))
        fitted = _power(theta, size)
        return _law("power", named, y, fitted, lambda at: np.exp(_power(theta, at)), count)

    return min(law(straight, 2), law(bent, 3), key=lambda fit: fit.aicc)


def exponential(size: Array, loss: Array) -> _Law:
    """a exp(-N / b) + c, with c >= 0: after a few times b all is learned."""
    y = np.log(loss)
    low = y.min() - 12  # as good as c = 0
    middle = np.log(size)
    starts = [
        [y.max(), b, end] for b in np.quantile(middle, [0.25, 0.5, 0.9]) for end in (low, y.min())
    ]
    a, b, c = theta = _free(_exponential, starts, size, y)
    named = {"a": float(np.exp(a)), "b": float(np.exp(b)), "c": float(np.exp(c))}
    fitted = _exponential(theta, size)
    return _law("exponential", named, y, fitted, lambda at: np.exp(_exponential(theta, at)))


def logarithmic(size: Array, loss: Array) -> _Law:
    """a - b log N: each doubling of the size takes the same amount off."""
    y, x = np.log(loss), np.log(size)
    floor = loss.min() / 10  # where the line would leave the losses

    def log_law(theta: np.ndarray, at: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(theta[0] - theta[1] * np.log(at), floor))

    slope, level = np.polyfit(x, loss, 1)
    theta = _free(log_law, [[level, -slope]], size, y)
    named = {"a": float(theta[0]), "b": float(theta[1])}
    return _law(
        "logarithmic", named, y, log_law(theta, size), lambda at: np.exp(log_law(theta, at))
    )


def broken(size: Array, loss: Array) -> _Law:
    """Two power laws that meet at a size: an exponent below it, and another one above."""
    y, x = np.log(loss), np.log(size)
    places = np.unique(x)
    best: tuple[float, float, np.ndarray] | None = None
    for bend in (places[1:-2] + places[2:-1]) / 2:
        terms = _bent(x, bend)
        theta = np.linalg.lstsq(terms, y, rcond=None)[0]
        rest = float(np.square(terms @ theta - y).sum())
        if best is None or rest < best[0]:
            best = rest, float(bend), theta
    if best is None:
        return _Law("broken", {}, float("nan"), lambda at: np.full(at.shape, np.nan))
    _, bend, theta = best
    named = {"alpha": -float(theta[1]), "alpha_above": -float(theta[1] + theta[2])}
    named["at"] = float(np.exp(bend))
    return _law(
        "broken",
        named,
        y,
        _bent(x, bend) @ theta,
        lambda at: np.exp(_bent(np.log(at), bend) @ theta),
        count=4,
    )


def _bent(x: np.ndarray, bend: float) -> np.ndarray:
    return np.column_stack([np.ones_like(x), x, np.maximum(x - bend, 0)])


def _constant(size: Array, loss: Array) -> _Law:
    """No law: size does not matter."""
    y = np.log(loss)
    mean = float(y.mean())
    fitted = np.full_like(y, mean)
    return _law(
        "none", {"c": float(np.exp(mean))}, y, fitted, lambda at: np.full(at.shape, np.exp(mean))
    )


LAWS: Mapping[str, Callable[[Array, Array], _Law]] = MappingProxyType(
    {
        "power": power,
        "exponential": exponential,
        "logarithmic": logarithmic,
        "broken": broken,
        "none": _constant,
    }
)


def _law(
    name: str,
    named: Mapping[str, float],
    y: np.ndarray,
    fitted: np.ndarray,
    predict: Callable[[Array], Array],
    count: int | None = None,
) -> _Law:
    """A law with its AICc, of ``count`` free numbers and the scatter."""
    n, k = len(y), (len(named) if count is None else count) + 1
    rest = max(float(np.square(fitted - y).sum()), 1e-300)
    enough = n - k - 1 > 0
    aicc = n * np.log(rest / n) + 2 * k + 2 * k * (k + 1) / (n - k - 1) if enough else np.nan
    return _Law(name, named, float(aicc), predict)


def exponent_interval(
    size: Array,
    loss: Array,
    group: Int[np.ndarray, " point"],
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """A bootstrap interval of the exponent of the power law, over seeds.

    The runs of each group are drawn with replacement, and the law is fitted anew. Few seeds of a
    group scatter less among each other than all seeds would. So their distances from the group's
    mean (of log loss) are stretched by sqrt(n / (n - 1)), and the ends by Student's t.

    Args:
        group: the setting of each run; its runs differ in the seed alone.
        confidence: confidence of the interval, between 0 and 1.
        resamples: number of draws of the runs.
        seed: seed of these draws.

    Returns:
        low, high; NaN if some group has a single run.
    """
    members = [np.flatnonzero(group == setting) for setting in np.unique(group)]
    if min(map(len, members)) < 2:
        return float("nan"), float("nan")
    y = np.log(loss)
    stretched = y.copy()
    for rows in members:
        mean, n = y[rows].mean(), len(rows)
        stretched[rows] = mean + (y[rows] - mean) * np.sqrt(n / (n - 1))
    rng = np.random.default_rng(seed)
    whole = power(size, loss)
    exponents = []
    for _ in range(resamples):
        rows = np.concatenate([rng.choice(runs, len(runs)) for runs in members])
        exponents.append(power(size[rows], np.exp(stretched[rows])).parameters["alpha"])
    tail = (1 - confidence) / 2
    ends = np.quantile(exponents, [tail, 1 - tail]) - whole.parameters["alpha"]
    free = sum(len(runs) - 1 for runs in members)
    low, high = whole.parameters["alpha"] + ends * t.ppf(tail, free) / norm.ppf(tail)
    return float(low), float(high)
