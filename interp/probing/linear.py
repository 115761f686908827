"""Linear probes: scikit-learn's ridge and logistic regression as they are by default."""

from __future__ import annotations

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
    """Ridge regression of a count, multinomial logistic regression of a category.

    Args:
        z: standardised activations: the penalty weighs all features alike.
        method: "linear", or "1-sparse" or "8-sparse" on the features, so many at the most, that
            tell most of the variable by themselves (Gurnee et al. 2023): those with the largest F
            statistic.

    Returns:
        What scikit-learn fitted: ``predict``, and of a category ``predict_proba``. A sparse probe
        is a pipeline, whose first step says by ``get_support`` which features it sees.
    """
    z = z.astype(np.float64)  # in single precision L-BFGS stops short, and ridge loses digits
    probe = Ridge() if kind == "count" else LogisticRegression(max_iter=1000)
    if method == "linear":
        return probe.fit(z, y)
    most = min(int(method.split("-")[0]), z.shape[1])
    told = f_regression if kind == "count" else f_classif
    with np.errstate(invalid="ignore", divide="ignore"):
        return make_pipeline(SelectKBest(partial(_told, told), k=most), probe).fit(z, y)


def _told(
    told: Callable[..., tuple[np.ndarray, np.ndarray]],
    z: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
) -> Float[np.ndarray, " d"]:
    """How much each feature tells: its F statistic.

    A dead neuron never varies. Its statistic is undefined, and it is chosen last.
    """
    varies = np.ptp(z, axis=0) > 0
    scores = np.full(z.shape[1], np.nan)
    if varies.any():
        scores[varies] = told(z[:, varies], y)[0]
    return scores


@contextmanager
def many_small_fits() -> Iterator[None]:
    """scikit-learn without what takes longer than a small problem itself.

    The lab hands it finite activations, and estimators that it built. On problems of this size more
    threads cost more than they bring: a hundred times, if the cores are shared.
    """
    with (
        _libraries().limit(limits=1),
        sklearn.config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """The libraries with threads; to look for them takes longer than a fit."""
    return ThreadpoolController()
