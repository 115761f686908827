"""Probes: which hidden variable can be read off which activation?

A probe is fitted on some words and scored on others: a word's positions are never on both sides.
Counts are scored by R2, categories by accuracy. What a probe can read, the model need not use, and
a probe may learn the task by itself: so every score stands beside its controls.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.feature_selection import SelectKBest, f_classif, f_regression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from interp.perceptrons import Kind, Perceptrons

PipelineMethod = Literal["linear", "1-sparse", "8-sparse"]
Method = PipelineMethod | Literal["mlp"]
Positions = tuple[np.ndarray, np.ndarray]  # words and positions in them
MOST: Mapping[Kind, int] = {"count": 8_000, "category": 2_000}  # logistic regression is dearer
MOST_OF_MLP = 1_500
METRIC: dict[Kind, str] = {"count": "R2", "category": "accuracy"}


@dataclass(frozen=True)
class Target:
    """A hidden variable at every position, [batch, pos], and where it is defined."""

    values: Int[np.ndarray, "batch pos"]
    mask: Bool[np.ndarray, "batch pos"]
    kind: Kind


def probe(kind: Kind, method: PipelineMethod = "linear") -> Pipeline:
    """The unfitted probe of a kind of variable, on standardised activations.

    - "linear": ridge regression, or multinomial logistic regression.
    - "1-sparse", "8-sparse": the same on the features, so many at the most, that tell most of the
      variable by themselves (F statistic on the training words; Gurnee et al. 2023).
    """
    last = Ridge(alpha=1.0) if kind == "count" else LogisticRegression(max_iter=1000)
    if method == "linear":
        return make_pipeline(StandardScaler(), last)
    score = f_regression if kind == "count" else f_classif
    chosen = SelectKBest(score, k=int(method.split("-")[0]))
    return make_pipeline(StandardScaler(), chosen, last)


def control_task(
    target: Target,
    types: Int[np.ndarray, "batch pos"],
    train: Bool[np.ndarray, " batch"],
    seed: int,
) -> Target:
    """Hewitt and Liang's (2019) control: each type has one value of its own, drawn at random.

    What a probe scores on it says how much it can memorise; selectivity is its score on the true
    variable minus that.

    Args:
        types: what the random value hangs on, for them the word's form; where there are but two or
            three symbols, the symbol with its position.
        train: values are drawn as often as they occur in these words.
    """
    occurring = target.values[target.mask & train[:, None]]
    rng = np.random.default_rng(seed)
    names, number = np.unique(types, return_inverse=True)
    drawn = rng.choice(occurring, size=len(names)) if len(occurring) else np.zeros(len(names), int)
    return replace(target, values=drawn[number].reshape(types.shape))


def probe_sites(
    sites: Mapping[str, Float[np.ndarray, "batch pos d"]],
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    shuffled: bool = False,
    most: Mapping[Kind, int] = MOST,
    methods: Sequence[Method] = ("linear",),
) -> pd.DataFrame:
    """Fits one probe per method, site and target.

    Args:
        sites: activations by name.
        train: the words to fit on; the others are scored.
        seed: of the choice of positions, of the shuffle and of the perceptrons.
        shuffled: the control with the training labels in random order.
        most: positions to fit on and to score, by kind, drawn at random where there are more.
        methods: those of ``probe``, and "mlp": one hidden layer, see ``Perceptrons``.

    Returns:
        One row per method, site and target: probe, site, target, metric, score, n_train, n_test. A
        target with one value alone among the training positions has no probe and no row.
    """
    rows = []
    # On problems of this size more threads cost more than they bring: a hundred times, if shared.
    with threadpool_limits(1):
        for method in methods:
            limits = {k: min(n, MOST_OF_MLP) for k, n in most.items()} if method == "mlp" else most
            for name, target, fit, test in _cases(targets, train, seed, limits):
                y = target.values[fit]
                if shuffled:
                    y = np.random.default_rng(seed).permutation(y)
                if method == "mlp":
                    scores = _perceptrons(sites, target, y, fit, test, seed)
                else:
                    truth = target.values[test]
                    scores = {
                        site: fit_probe(x[fit], y, target.kind, method).score(x[test], truth)
                        for site, x in sites.items()
                    }
                rows += [
                    {"probe": method, **_row(site, name, target.kind, scores[site], fit, test)}
                    for site in sites
                ]
    return pd.DataFrame(rows)


def fit_probe(
    x: Float[np.ndarray, "n d"],
    y: Int[np.ndarray, " n"],
    kind: Kind,
    method: PipelineMethod = "linear",
) -> Pipeline:
    """The fitted probe; a sparse one takes no more features than vary."""
    with warnings.catch_warnings():
        # Constant features say nothing of themselves.
        warnings.filterwarnings("ignore", "Features")
        warnings.filterwarnings("ignore", "k=.* is greater than n_features")
        warnings.filterwarnings("ignore", "invalid value encountered", RuntimeWarning)
        warnings.filterwarnings("ignore", "divide by zero encountered", RuntimeWarning)
        return probe(kind, method).fit(x, y)


def _perceptrons(
    sites: Mapping[str, Float[np.ndarray, "batch pos d"]],
    target: Target,
    y: Int[np.ndarray, " n"],
    fit: Positions,
    test: Positions,
    seed: int,
) -> dict[str, float]:
    """The score at each site; sites of one width are fitted together."""
    score = r2_score if target.kind == "count" else accuracy_score
    scores = dict[str, float]()
    for width in {x.shape[-1] for x in sites.values()}:
        names = [name for name, x in sites.items() if x.shape[-1] == width]
        x, new = (np.stack([sites[name][side] for name in names]) for side in (fit, test))
        read = Perceptrons.fit(x, y, target.kind, seed).predict(new)
        scores |= {n: score(target.values[test], r) for n, r in zip(names, read, strict=True)}
    return scores


def baseline(
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    most: Mapping[Kind, int] = MOST,
) -> pd.DataFrame:
    """The control that sees no activation: the mean count, the commonest category."""
    rows = []
    for name, target, fit, test in _cases(targets, train, seed, most):
        y, y_test = target.values[fit], target.values[test]
        dummy = DummyRegressor() if target.kind == "count" else DummyClassifier()
        score = dummy.fit(y[:, None], y).score(y_test[:, None], y_test)
        rows.append({"probe": "none", **_row("none", name, target.kind, score, fit, test)})
    return pd.DataFrame(rows)


def _cases(
    targets: Mapping[str, Target], train: np.ndarray, seed: int, most: Mapping[Kind, int]
) -> Iterator[tuple[str, Target, Positions, Positions]]:
    """Each target that varies, with the positions to fit on and those to score."""
    for name, target in targets.items():
        rng = np.random.default_rng(seed)
        sides = []
        for side in (train, ~train):
            word, position = np.nonzero(target.mask & side[:, None])
            keep = np.sort(rng.permutation(len(word))[: most[target.kind]])
            sides.append((word[keep], position[keep]))
        fit, test = sides
        if len(np.unique(target.values[fit])) > 1 and len(test[0]) > 1:
            yield name, target, fit, test


def _row(
    site: str, target: str, kind: Kind, score: float, fit: Positions, test: Positions
) -> dict[str, object]:
    return {
        "site": site,
        "target": target,
        "metric": METRIC[kind],
        "score": float(score),
        "n_train": len(fit[0]),
        "n_test": len(test[0]),
    }
