"""Perceptrons fitted together are scikit-learn's, fitted one by one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from interp.probing.perceptrons import Perceptrons

N, D = 450, 5  # two whole batches and a short one
SIZES = {"hidden_layer_sizes": (64,), "max_iter": 20, "n_iter_no_change": 20}


@pytest.mark.parametrize("values", [None, 2, 4], ids=["count", "two", "four"])
def test_each_reads_as_scikit_learns_own_does(values: int | None) -> None:
    """Whatever stands beside it: a feature that never varies in one, another scale in the next."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(N, D))
    scale = np.array([1.0, 30.0, 1e-3])[:, None, None]
    x, new = (scale * (hidden + 0.5 * rng.normal(size=(3, N, D))) for _ in range(2))
    x[0, :, 2] = new[0, :, 2] = 7.0
    y = np.abs(np.round(hidden[:, 0] + hidden[:, 1] ** 2)).astype(np.int64)
    y = y if values is None else 5 + 2 * np.minimum(y, values - 1)  # not numbered from 0
    kind = "count" if values is None else "category"
    scales = [StandardScaler().fit(site) for site in x]
    z, unseen_z = (
        np.stack([s.transform(site) for s, site in zip(scales, sites, strict=True)])
        for sites in (x, new)
    )
    read = Perceptrons.fit(z, y, kind, 3).predict(unseen_z)
    for site, unseen, ours in zip(x, new, read, strict=True):
        if values is None:
            net = MLPRegressor(**SIZES, learning_rate_init=5e-3, random_state=3)
            net = TransformedTargetRegressor(net, transformer=StandardScaler())
        else:
            net = MLPClassifier(**SIZES, learning_rate_init=5e-3, random_state=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = make_pipeline(StandardScaler(), net).fit(site, y).predict(unseen)
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-5)
        assert len(np.unique(theirs)) > 1
