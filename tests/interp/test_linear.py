"""Linear probes are scikit-learn's, to rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from interp.probing.linear import Kind, Linear, LinearMethod, Scale, leave_one_out

N, D = 120, 12
Problem = tuple[np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture
def problem() -> Callable[[int | None], Problem]:
    """Activations of the fit, a count or a category of so many values, and other activations."""

    def make(values: int | None) -> Problem:
        rng = np.random.default_rng(0)
        x, new = (rng.normal(size=(N, D)) * np.geomspace(1e-3, 1e3, D) + 5 for _ in range(2))
        x[:, 4] = new[:, 4] = 0.1  # never varies, and is no sum of powers of two
        told = np.argsort(np.argsort(x[:, 0] / 1e-3 + 0.5 * x[:, -1] / 1e3 + rng.normal(size=N)))
        return x, told // 6 if values is None else 3 + 2 * (told * values // N), new

    return make


@pytest.mark.parametrize("values", [None, 2, 5], ids=["count", "two", "five"])
@pytest.mark.parametrize("method", ["linear", "1-sparse", "8-sparse"])
def test_it_is_the_pipeline(
    problem: Callable[[int | None], Problem], values: int | None, method: LinearMethod
) -> None:
    x, y, new = problem(values)
    kind: Kind = "count" if values is None else "category"
    scale = Scale.of(x)
    ours = Linear.fit(scale(x), y, kind, method)
    last = Ridge() if values is None else LogisticRegression(max_iter=1000)
    k = D if method == "linear" else int(method[0])
    chosen = SelectKBest(f_regression if values is None else f_classif, k=k)
    theirs = make_pipeline(StandardScaler(), chosen, last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the feature that never varies
        theirs.fit(x, y)
    assert np.arange(D)[ours.chosen].tolist() == chosen.get_support(indices=True).tolist()
    if values is None:
        assert ours.predict(scale(new)) == pytest.approx(theirs.predict(new))
        return
    assert (ours.predict(scale(new)) == theirs.predict(new)).all()
    p = theirs.predict_proba(new)
    assert ours.probabilities(scale(new)) == pytest.approx(p, abs=1e-6)
    assert p.std() > 0.1


def test_many_sites_are_scaled_at_once_as_one_by_one() -> None:
    x = np.random.default_rng(1).normal(3, 2, size=(4, 30, 5)).astype(np.float32)
    x[2, :, 1] = 7
    scaled = Scale.of(x)(x)
    assert scaled.dtype == np.float32
    for site, ours in zip(x, scaled, strict=True):
        assert ours == pytest.approx(StandardScaler().fit_transform(site), abs=1e-5)


@pytest.mark.parametrize("n", [4, 20, 120])
def test_what_is_left_out_is_not_known(problem: Callable[[int | None], Problem], n: int) -> None:
    """As a fit without it says, and as RidgeCV says without one."""
    x, y, _ = problem(None)
    z = Scale.of(x[:n])(x[:n])
    errors = leave_one_out(z, y[:n], Linear.fit(z, y[:n], "count"))
    for i in range(n):
        rest = np.arange(n) != i
        assert errors[i] == pytest.approx(y[i] - Ridge().fit(z[rest], y[:n][rest]).predict(z)[i])
    by_one = RidgeCV([1.0], store_cv_results=True).fit(z, y[:n])
    assert errors**2 == pytest.approx(by_one.cv_results_[:, 0])
