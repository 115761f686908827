"""Probes of every site, against scikit-learn's pipelines.

One variable that is counted and one that is a category, at the sites of a network of two blocks.
The peer's pipelines are those that our probes claim to be: both must score alike before they are
timed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from interp.probing.linear import Kind
from interp.probing.probes import Method, Target, probe_sites
from tests.benchmarks.measure import Result, compare

SITES, WORDS, POSITIONS, WIDTH = 8, 100, 24, 64
FASTER: dict[Method, float] = {"linear": 1.5, "8-sparse": 1.5, "mlp": 2.0}


def pipeline(kind: Kind, method: Method) -> Pipeline:
    """scikit-learn's."""
    if method == "mlp":
        net = MLPRegressor if kind == "count" else MLPClassifier
        sizes = {"hidden_layer_sizes": (64,), "max_iter": 20, "n_iter_no_change": 20}
        made = net(**sizes, learning_rate_init=5e-3, random_state=0)
        if kind == "count":
            made = TransformedTargetRegressor(made, transformer=StandardScaler())
        return make_pipeline(StandardScaler(), made)
    last = Ridge() if kind == "count" else LogisticRegression(max_iter=1000)
    if method == "linear":
        return make_pipeline(StandardScaler(), last)
    best = SelectKBest(f_regression if kind == "count" else f_classif, k=8)
    return make_pipeline(StandardScaler(), best, last)


def probing_speed() -> Iterator[Result]:
    """A comparison per kind of probe."""
    rng = np.random.default_rng(0)
    shape = (WORDS, POSITIONS)
    depth = np.minimum(np.arange(POSITIONS), rng.integers(1, POSITIONS, (WORDS, 1)))
    everywhere = np.ones(shape, dtype=bool)
    targets = {
        "depth": Target(depth, everywhere, "count"),
        "state": Target(depth % 4, everywhere, "category"),
    }
    told = np.stack([depth, *(depth % 4 == value for value in range(4))], axis=-1)
    sites = {}
    for number in range(SITES):
        noise = rng.normal(size=(*shape, WIDTH))
        sites[f"site {number}"] = (told @ rng.normal(size=(5, WIDTH)) + noise).astype(np.float32)
    train = np.arange(WORDS) % 2 == 0

    def usual(method: Method) -> list[float]:
        scores = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 20 epochs are all
            for target in targets.values():
                y, truth = target.values[train].ravel(), target.values[~train].ravel()
                for x in sites.values():
                    fitted = pipeline(target.kind, method).fit(x[train].reshape(-1, WIDTH), y)
                    scores.append(float(fitted.score(x[~train].reshape(-1, WIDTH), truth)))
        return scores

    for method, target in FASTER.items():
        ours = probe_sites(sites, targets, train, methods=[method])["score"]
        np.testing.assert_allclose(ours, usual(method), atol=5e-3)
        yield compare(
            f"probing, {method}, {len(targets)} variables at {SITES} sites",
            lambda method=method: probe_sites(sites, targets, train, methods=[method]),
            ("scikit-learn", lambda method=method: usual(method)),
            "speedup",
            target,
            rounds=7,
        )
