"""Linear probes: scikit-learn's ridge and logistic regression with their default penalties."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Literal

import numpy as np
import sklearn
from jaxtyping import Float, Int
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from threadpoolctl import ThreadpoolController

Kind = Literal["count", "category"]
LinearMethod = Literal["linear", "1-sparse", "8-sparse"]


def fit_linear(
    z: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    kind: Kind,
    method: LinearMethod = "linear",
) -> Any:
    """Fits ridge regression to a count, or multinomial logistic regression to a category.

    Args:
        z: activations, standardised because the penalty treats all features alike.
        y: the variable's values.
        kind: "count" or "category".
        method: "linear" uses all features. "1-sparse" and "8-sparse" use at most one and eight of
            them: those that tell most about the variable by themselves, that is, with the largest
            F statistic (Gurnee et al. 2023).

    Returns:
        A fitted estimator of scikit-learn, with ``predict``, and for a category ``predict_proba``.
        A sparse probe is a pipeline; ``get_support`` of its first step says which features it uses.
    """
    z = z.astype(np.float64)  # in single precision L-BFGS stops short, and ridge loses digits
    probe = Ridge() if kind == "count" else LogisticRegression(max_iter=1000)
    if method != "linear":
        told = partial(_told, f_regression if kind == "count" else f_classif)
        most = min(int(method.split("-")[0]), z.shape[1])
        probe = make_pipeline(SelectKBest(told, k=most), probe)
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        # The first examples of an online code have nearly as many values as there are examples, and
        # features that never vary are chosen last.
        warnings.filterwarnings("ignore", "The number of unique classes|Features", UserWarning)
        return probe.fit(z, y)


def standardise(
    x: Float[np.ndarray, "n d"], *others: Float[np.ndarray, "_ d"]
) -> list[Float[np.ndarray, "_ d"]]:
    """Activations, and others beside them, scaled so that the former have mean 0 and variance 1.

    A feature that does not vary but for rounding keeps its size, as in scikit-learn's
    ``StandardScaler``, which takes longer than a small fit.
    """
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axis=0), wide.var(axis=0)
    rounding = len(x) * np.finfo(np.float64).eps
    still = variance <= rounding * variance + (rounding * mean) ** 2
    deviation = np.where(still, 1, np.sqrt(variance))
    return [((values - mean) / deviation).astype(values.dtype) for values in (x, *others)]


def _told(
    statistic: Callable[..., tuple[np.ndarray, np.ndarray]],
    z: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " d"]:
    """The F statistic of each feature: how much it tells about the variable.

    The statistic of a feature that never varies (a dead neuron) is undefined: it is chosen last.
    """
    return np.where(np.ptp(z, axis=0) > 0, statistic(z, y)[0], np.nan)


@contextmanager
def many_small_fits() -> Iterator[None]:
    """Switches off what takes scikit-learn longer than a small fit itself: checks and threads.

    The checks are not needed, since activations are finite and the lab builds the estimators. On
    problems of this size more threads cost more time than they save: a hundred times as much if the
    cores are shared.
    """
    with (
        _libraries().limit(limits=1),
        sklearn.config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """The libraries that use threads, kept because looking for them takes longer than a fit."""
    return ThreadpoolController()
