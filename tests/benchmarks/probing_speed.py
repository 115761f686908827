"""Perceptrons of every site, fitted together, against scikit-learn's, fitted one by one.

One variable that is counted and one that is a category, at the sites of a network of two blocks.
Both standardise each site once, take the same steps from the same draws, and must score alike
before they are timed. Linear probes are scikit-learn's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from interp.probing.linear import Kind
from interp.probing.probes import Target, probe_sites
from tests.benchmarks.measure import Result, Side, compare

SITES, WORDS, POSITIONS, WIDTH = 8, 100, 24, 64
FASTER = 3.0  # or scikit-learn's own would do


def perceptron(kind: Kind) -> MLPClassifier | TransformedTargetRegressor:
    """scikit-learn's."""
    net = MLPRegressor if kind == "count" else MLPClassifier
    sizes = {"hidden_layer_sizes": (64,), "max_iter": 20, "n_iter_no_change": 20}
    made = net(**sizes, learning_rate_init=5e-3, random_state=0)
    return (
        made
        if kind == "category"
        else TransformedTargetRegressor(made, transformer=StandardScaler())
    )


def probing_speed() -> Iterator[Result]:
    """One comparison."""
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

    def ours() -> np.ndarray:
        return probe_sites(sites, targets, train, methods=["mlp"])["score"].to_numpy()

    def usual() -> list[float]:
        scores = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that 20 epochs are all
            for site, x in sites.items():
                scale = StandardScaler().fit(x[train].reshape(-1, WIDTH))
                old, new = (scale.transform(x[rows].reshape(-1, WIDTH)) for rows in (train, ~train))
                for name, target in targets.items():
                    y, truth = target.values[train].ravel(), target.values[~train].ravel()
                    scores[name, site] = perceptron(target.kind).fit(old, y).score(new, truth)
        return [scores[name, site] for name in targets for site in sites]

    np.testing.assert_allclose(ours(), usual(), atol=5e-3)
    yield compare(
        f"probing by perceptrons, {len(targets)} variables at {SITES} sites",
        Side("ours", "all sites fitted at once, in batched products", ours),
        Side("scikit-learn", "MLPRegressor and MLPClassifier, site by site", usual),
        FASTER,
        rounds=9,
    )
