"""Linear probes: which hidden variable can be read off which activation?

A probe is a standardised ridge regression (counts, scored by R2) or multinomial logistic regression
(categories, scored by accuracy), fitted on some words and scored on others: a word's positions are
never on both sides. What a probe can read, the model need not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

Kind = Literal["count", "category"]
Positions = tuple[np.ndarray, np.ndarray]  # words and positions in them
MOST: Mapping[Kind, int] = {"count": 20_000, "category": 3_000}  # logistic regression is dearer
METRIC: dict[Kind, str] = {"count": "R2", "category": "accuracy"}


@dataclass(frozen=True)
class Target:
    """A hidden variable at every position, [batch, pos], and where it is defined."""

    values: Int[np.ndarray, "batch pos"]
    mask: Bool[np.ndarray, "batch pos"]
    kind: Kind


def probe(kind: Kind) -> Pipeline:
    """The unfitted probe of a kind of variable."""
    if kind == "count":
        return make_pipeline(StandardScaler(), Ridge(alpha=1.0))
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def probe_sites(
    sites: Mapping[str, Float[np.ndarray, "batch pos d"]],
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    shuffled: bool = False,
    most: Mapping[Kind, int] = MOST,
) -> pd.DataFrame:
    """Fits one probe per site and target.

    Args:
        sites: activations by name.
        train: the words to fit on; the others are scored.
        seed: of the choice of positions and of the shuffle.
        shuffled: the control with the training labels in random order.
        most: positions to fit on and to score, by kind, drawn at random where there are more.

    Returns:
        One row per site and target: site, target, metric, score, n_train, n_test. A target with one
        value alone among the training positions has no probe and no row.
    """
    rows = []
    # On problems of this size more threads cost more than they bring: a hundred times, if shared.
    with threadpool_limits(1):
        for name, target, fit, test in _cases(targets, train, seed, most):
            y = target.values[fit]
            if shuffled:
                y = np.random.default_rng(seed).permutation(y)
            for site, activation in sites.items():
                fitted = probe(target.kind).fit(activation[fit], y)
                score = fitted.score(activation[test], target.values[test])
                rows.append(_row(site, name, target.kind, score, fit, test))
    return pd.DataFrame(rows)


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
        rows.append(_row("none", name, target.kind, score, fit, test))
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
