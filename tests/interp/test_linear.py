"""Linear probes: what they minimise, which features they take, and how little they say about it."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import sklearn
from scipy.special import softmax
from scipy.stats import f_oneway, pearsonr
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

from interp.probing.linear import LinearMethod, fit_linear, many_small_fits

N, D = 120, 12
DEAD = 4  # a feature that never varies
Problem = tuple[np.ndarray, np.ndarray]


@pytest.fixture
def problem() -> Callable[[int | None], Problem]:
    """Standardised activations, and a count or a category of so many values that two of them
    tell."""

    def make(values: int | None) -> Problem:
        rng = np.random.default_rng(0)
        z = StandardScaler().fit_transform(rng.normal(size=(N, D)))
        z[:, DEAD] = 0
        told = np.argsort(np.argsort(z[:, 0] + 0.5 * z[:, -1] + rng.normal(size=N)))
        return z, told // 6 if values is None else 3 + 2 * (told * values // N)

    return make


def test_a_count_is_read_by_ridge_regression(problem: Callable[[int | None], Problem]) -> None:
    """In closed form, with a penalty of 1 and none of the bias."""
    z, y = problem(None)
    weights = np.linalg.solve(z.T @ z + np.eye(D), z.T @ (y - y.mean()))
    assert fit_linear(z, y, "count").predict(z) == pytest.approx(y.mean() + z @ weights)


@pytest.mark.parametrize("values", [2, 5])
def test_a_category_is_read_by_logistic_regression(
    problem: Callable[[int | None], Problem], values: int
) -> None:
    """Its slopes are those of the cross-entropy with half the squared weights: 0 where it ends."""
    z, y = problem(values)
    probe = fit_linear(z, y, "category")
    p = probe.predict_proba(z)
    assert probe.classes_.tolist() == np.unique(y).tolist()
    score = z @ probe.coef_.T + probe.intercept_
    if values == 2:
        score = np.concatenate([np.zeros_like(score), score], axis=1)
    assert p == pytest.approx(softmax(score, axis=1))
    error = (p - (y[:, None] == probe.classes_))[:, -len(probe.coef_) :]
    assert np.abs(error.T @ z + probe.coef_).max() < 1e-4 * N  # scikit-learn stops there
    assert np.abs(error.sum(axis=0)).max() < 1e-4 * N
    assert (probe.predict(z) == probe.classes_[p.argmax(axis=1)]).all()
    assert np.abs(probe.coef_).max() > 0.3


@pytest.mark.parametrize("values", [None, 2, 5], ids=["count", "two", "five"])
@pytest.mark.parametrize("method", ["1-sparse", "8-sparse"])
def test_a_sparse_probe_sees_the_features_that_tell_most(
    problem: Callable[[int | None], Problem], values: int | None, method: LinearMethod
) -> None:
    """Of single precision too, without a word about what never varies, and never that."""
    z, y = problem(values)
    if values is None:
        told = [0 if i == DEAD else abs(pearsonr(z[:, i], y)[0]) for i in range(D)]
    else:
        groups = [z[y == value] for value in np.unique(y)]
        told = [0 if i == DEAD else f_oneway(*(g[:, i] for g in groups))[0] for i in range(D)]
    most = np.sort(np.argsort(told)[-int(method[0]) :])
    for x in (z, z.astype(np.float32)):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            probe = fit_linear(x, y, "count" if values is None else "category", method)
        assert probe[0].get_support(indices=True).tolist() == most.tolist()
        assert DEAD not in most
        elsewhere = x.copy()
        elsewhere[:, np.setdiff1d(np.arange(D), most)] = 99
        assert (probe.predict(elsewhere) == probe.predict(x)).all()


@pytest.mark.parametrize("values", [None, 5], ids=["count", "five"])
def test_dozens_of_dead_neurons_are_chosen_last_in_silence(
    problem: Callable[[int | None], Problem], values: int | None
) -> None:
    z, y = problem(values)
    many = np.concatenate([np.zeros((len(z), 60)), z[:, :5]], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probe = fit_linear(many, y, "count" if values is None else "category", "8-sparse")
    assert set(range(60, 65)) <= set(probe[0].get_support(indices=True))


def test_a_category_with_nearly_as_many_values_as_examples_is_fitted_in_silence() -> None:
    y = np.arange(30) // 1.3
    z = np.random.default_rng(0).normal(size=(len(y), 4))
    assert len(fit_linear(z, y.astype(int), "category").classes_) > 0.5 * len(y)


def test_eight_of_three_features_are_all_three(problem: Callable[[int | None], Problem]) -> None:
    z, y = problem(None)
    few = fit_linear(z[:, :3], y, "count", "8-sparse").predict(z[:, :3])
    assert few == pytest.approx(fit_linear(z[:, :3], y, "count").predict(z[:, :3]))


def test_single_precision_costs_no_accuracy(problem: Callable[[int | None], Problem]) -> None:
    z, y = problem(5)
    single = fit_linear(z.astype(np.float32), y, "category").predict_proba(z)
    assert single == pytest.approx(fit_linear(z, y, "category").predict_proba(z), abs=1e-6)


def test_small_fits_take_one_thread_and_no_checks() -> None:
    before = sklearn.get_config()
    with many_small_fits():
        assert {pool["num_threads"] for pool in threadpool_info()} <= {1}
        assert sklearn.get_config()["assume_finite"]
        assert sklearn.get_config()["skip_parameter_validation"]
    assert sklearn.get_config() == before
