"""Linear probes: which hidden variable can be read off which activation?

A probe is a standardised ridge regression (counts, scored by R2) or multinomial logistic regression
(categories, scored by accuracy), fitted on some words and scored on others: a word's positions are
never on both sides. What a probe can read, the model need not use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

Kind = Literal["count", "category"]
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
    most: int = 3000,
) -> pd.DataFrame:
    """Fits one probe per site and target.

    Args:
        sites: activations by name.
        train: the words to fit on; the others are scored.
        seed: of the choice of positions and of the shuffle.
        shuffled: the control with the training labels in random order.
        most: positions to fit on, drawn at random where there are more.

    Returns:
        One row per site and target: site, target, metric, score, n_train, n_test. A target with one
        value alone among the training positions has no probe and no row.
    """
    rows = []
    for name, target in targets.items():
        fit_rows, test_rows = _positions(target, train, most, seed)
        y, y_test = target.values[fit_rows], target.values[test_rows]
        if len(np.unique(y)) < 2 or len(y_test) < 2:
            continue
        if shuffled:
            y = np.random.default_rng(seed).permutation(y)
        for site, activation in sites.items():
            fitted = probe(target.kind).fit(activation[fit_rows], y)
            score = fitted.score(activation[test_rows], y_test)
            rows.append(_row(site, name, target.kind, score, len(y), len(y_test)))
    return pd.DataFrame(rows)


def baseline(
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    most: int = 3000,
) -> pd.DataFrame:
    """The control that sees no activation: the mean count, the commonest category."""
    rows = []
    for name, target in targets.items():
        fit_rows, test_rows = _positions(target, train, most, seed)
        y, y_test = target.values[fit_rows], target.values[test_rows]
        if len(np.unique(y)) < 2 or len(y_test) < 2:
            continue
        dummy = DummyRegressor() if target.kind == "count" else DummyClassifier()
        score = dummy.fit(y[:, None], y).score(y_test[:, None], y_test)
        rows.append(_row("none", name, target.kind, score, len(y), len(y_test)))
    return pd.DataFrame(rows)


def _row(
    site: str, target: str, kind: Kind, score: float, n_train: int, n_test: int
) -> dict[str, object]:
    return {
        "site": site,
        "target": target,
        "metric": METRIC[kind],
        "score": float(score),
        "n_train": n_train,
        "n_test": n_test,
    }


def _positions(
    target: Target, train: np.ndarray, most: int, seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(word, position) indices to fit on and to score, each at most ``most``."""
    rng = np.random.default_rng(seed)
    sides = []
    for side in (train, ~train):
        word, position = np.nonzero(target.mask & side[:, None])
        keep = np.sort(rng.permutation(len(word))[:most])
        sides.append((word[keep], position[keep]))
    return sides[0], sides[1]
