"""Linear probes on standardised activations: ridge and logistic regression.

scikit-learn's ``Ridge`` and ``LogisticRegression`` as they are by default. A run is asked some
thousand small problems; what scikit-learn checks and converts for each takes longer than to solve
it, and what all probes of a site share, its standardised activations, is made once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int, Shaped
from scipy.optimize import minimize
from scipy.special import expit, softmax

Kind = Literal["count", "category"]
LinearMethod = Literal["linear", "1-sparse", "8-sparse"]
PENALTY = 1.0
"""Of half the squared weights, beside the sum of the squared errors' halves or of the cross-entropy
over all positions."""


@dataclass(frozen=True)
class Scale:
    """Mean 0 and variance 1 of every feature, as on the positions of the fit.

    A feature that does not vary there keeps its own scale.
    """

    mean: Float[np.ndarray, "*site 1 d"]
    deviation: Float[np.ndarray, "*site 1 d"]

    @classmethod
    def of(cls, x: Float[np.ndarray, "*site n d"]) -> Scale:
        mean = x.mean(-2, keepdims=True, dtype=np.float64)
        variance = np.square(x - mean).mean(-2, keepdims=True)
        rounding = np.square(x.shape[-2] * mean * np.finfo(np.float64).eps)
        deviation = np.sqrt(np.where(variance > rounding, variance, 1.0))
        return cls(mean.astype(x.dtype), deviation.astype(x.dtype))

    def __call__(self, x: Float[np.ndarray, "*site n d"]) -> Float[np.ndarray, "*site n d"]:
        return (x - self.mean) / self.deviation


@dataclass(frozen=True)
class Linear:
    """A fitted probe of standardised activations z.

    Attributes:
        chosen: the features that it sees.
        weights: [chosen, out]; of a category with two values one output, of more one each.
        bias: of each output.
        values: of a category; None for a count.
    """

    chosen: slice | Int[np.ndarray, " chosen"]
    weights: Float[np.ndarray, "chosen out"]
    bias: Float[np.ndarray, " out"]
    values: Shaped[np.ndarray, " values"] | None

    @classmethod
    def fit(
        cls,
        z: Float[np.ndarray, "n d"],
        y: Int[np.ndarray, " n"],
        kind: Kind,
        method: LinearMethod = "linear",
    ) -> Linear:
        """Ridge regression of a count, multinomial logistic regression of a category.

        Args:
            method: "linear", or "1-sparse" or "8-sparse" on the features, so many at the most, that
                tell most of the variable by themselves (Gurnee et al. 2023): those with the largest
                F statistic.
        """
        values, codes = (None, y) if kind == "count" else np.unique(y, return_inverse=True)
        chosen: slice | np.ndarray = slice(None)
        if method != "linear":
            told = _told(z, codes, kind)
            chosen = np.sort(np.argsort(told, kind="stable")[-int(method.split("-")[0]) :])
        seen = z[:, chosen]
        weights, bias = _ridge(seen, y) if values is None else _logistic(seen, codes, len(values))
        return cls(chosen, weights, bias, values)

    def predict(self, z: Float[np.ndarray, "n d"]) -> Shaped[np.ndarray, " n"]:
        """The count, or the likeliest value."""
        out = self._outputs(z)
        if self.values is None:
            return out[:, 0]
        return self.values[out.argmax(1) if len(self.values) > 2 else (out[:, 0] > 0).astype(int)]

    def probabilities(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n values"]:
        """Of each value of a category, in their order."""
        out = self._outputs(z)
        if out.shape[1] > 1:
            return softmax(out, axis=1)
        return np.concatenate([expit(-out), expit(out)], axis=1)

    def _outputs(self, z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n out"]:
        return z[:, self.chosen] @ self.weights + self.bias


def leave_one_out(
    z: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"], probe: Linear
) -> Float[np.ndarray, " n"]:
    """The errors of a ridge probe of z and y at each position, had it been left out of the fit."""
    wide = z.astype(np.float64)
    solved = np.linalg.solve(_gram(wide), wide.T)
    leverage = np.einsum("nd,dn->n", wide, solved) + 1 / len(y)
    return (y - probe.predict(wide)) / (1 - leverage)


def _gram(z: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "d d"]:
    return z.T @ z + PENALTY * np.eye(z.shape[1], dtype=z.dtype)


def _told(
    z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], kind: Kind
) -> Float[np.ndarray, " d"]:
    """What grows with a feature's F statistic: the share of its variance that goes with y."""
    if kind == "count":
        return np.abs((codes - codes.mean()) @ z)
    of_value = np.eye(codes.max() + 1)[codes]
    return np.square(of_value.T @ z).T @ (1 / of_value.sum(0))


def _ridge(
    z: Float[np.ndarray, "n d"], y: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "d 1"], Float[np.ndarray, " 1"]]:
    centre = y.mean()
    pull = z.T @ (y - centre).astype(z.dtype)
    return np.linalg.solve(_gram(z), pull)[:, None], np.array([centre])


def _logistic(
    z: Float[np.ndarray, "n d"], codes: Int[np.ndarray, " n"], count: int
) -> tuple[Float[np.ndarray, "d out"], Float[np.ndarray, " out"]]:
    """By L-BFGS from zero, until no slope of the mean loss is above 1e-4.

    Of two values one output is the second's, against a first that stays 0.
    """
    z = z.astype(np.float64)
    n, d = z.shape
    truth = np.eye(count)[:, codes] if count > 2 else codes[None].astype(np.float64)
    out, across = len(truth), z.T.copy()

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights, bias = flat[:-out].reshape(out, d), flat[-out:]
        score = weights @ across + bias[:, None]
        top = np.maximum(score.max(0), 0 if out == 1 else -np.inf)
        shares = np.exp(score - top)
        total = shares.sum(0) + (np.exp(-top) if out == 1 else 0)
        value = np.log(total).sum() + top.sum() - (truth * score).sum()
        error = (shares / total - truth) / n
        value = (value + PENALTY / 2 * np.square(weights).sum()) / n
        slopes = error @ z + PENALTY / n * weights
        return float(value), np.concatenate([slopes.ravel(), error.sum(1)])

    options = {"maxiter": 1000, "maxls": 50, "gtol": 1e-4, "ftol": 64 * np.finfo(np.float64).eps}
    found = minimize(loss, np.zeros((d + 1) * out), jac=True, method="L-BFGS-B", options=options).x
    return found[:-out].reshape(out, d).T, found[-out:]
