"""Probes: which hidden variable can be read off which activation?

A probe is a small model that is trained to read a hidden variable off activations. It is fitted on
some words and scored on others: a word's positions are never on both sides. Counts are scored by
R2, categories by accuracy. The model need not use what a probe can read, and a probe may learn the
task by itself. So every score stands beside its controls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.preprocessing import StandardScaler

from interp.probing.linear import Kind, LinearMethod, fit_linear, many_small_fits
from interp.probing.perceptrons import Perceptrons

Method = LinearMethod | Literal["mlp"]
Positions = tuple[np.ndarray, np.ndarray]  # the row of the word, and the position in it
MOST: Mapping[Kind, int] = {"count": 8_000, "category": 2_000}  # logistic regression takes longer
MOST_OF_MLP = 1_500
METRIC: dict[Kind, str] = {"count": "R2", "category": "accuracy"}


@dataclass(frozen=True)
class Target:
    """A hidden variable at every position, and the mask of the positions where it is defined."""

    values: Int[np.ndarray, "batch pos"]
    mask: Bool[np.ndarray, "batch pos"]
    kind: Kind


def control_task(
    target: Target,
    types: Int[np.ndarray, "batch pos"],
    train: Bool[np.ndarray, " batch"],
    seed: int,
) -> Target:
    """Hewitt and Liang's (2019) control: each type has one value of its own, drawn at random.

    A probe's score on it says how much the probe can memorise. Selectivity is its score on the true
    variable minus this score.

    Args:
        target: the true variable.
        types: what the random value depends on. In the paper it is the form of the word; in a
            language of two or three symbols take the symbol together with its position.
        train: values are drawn as often as they occur in these words.
        seed: of the draw.
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
        targets: the hidden variables by name.
        train: the words to fit on; the others are scored.
        seed: of the choice of positions, of the shuffle and of the perceptrons.
        shuffled: the control: the training labels are put in random order.
        most: the most positions to fit on, and the most to score, by kind of variable. If there are
            more, they are drawn at random.
        methods: those of ``fit_linear``, and "mlp": one hidden layer, see ``Perceptrons``.

    Returns:
        One row per method, site and target: probe (the method), site, target, metric, score,
        n_train and n_test (positions). The metric is "R2" (1 is perfect, 0 is no better than the
        mean, less is worse) or "accuracy" (0 to 1). A target with a single value among the training
        positions has no probe and no row.
    """
    rows = []
    with many_small_fits():
        for method in methods:
            limits = {k: min(n, MOST_OF_MLP) for k, n in most.items()} if method == "mlp" else most
            for (fit, test), cases in _cases(targets, train, seed, limits):
                for together in _together(sites, method):
                    sides = [_standardised(sites[name], fit, test) for name in together]
                    z, new = (np.stack(side) for side in zip(*sides, strict=True))
                    for name, target in cases.items():
                        y, truth = target.values[fit], target.values[test]
                        if shuffled:
                            y = np.random.default_rng(seed).permutation(y)
                        read = _read(z, y, new, target.kind, method, seed)
                        for site, values in zip(together, read, strict=True):
                            score = _score(truth, values, target.kind)
                            row = _row(site, name, target.kind, score, fit, test)
                            rows.append({"probe": method, **row})
    order = {"probe": [*map(str, methods)], "target": [*targets], "site": [*sites]}
    rows.sort(key=lambda row: [names.index(str(row[key])) for key, names in order.items()])
    return pd.DataFrame(rows)


def _standardised(
    x: Float[np.ndarray, "batch pos d"], fit: Positions, test: Positions
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Both sides, scaled by the fit: there each feature gets mean 0 and variance 1."""
    scale = StandardScaler().fit(x[fit])
    return scale.transform(x[fit]), scale.transform(x[test])


def _together(sites: Mapping[str, np.ndarray], method: Method) -> list[list[str]]:
    """Groups of sites that are probed at once: perceptrons of equal width; else single sites."""
    if method != "mlp":
        return [[name] for name in sites]
    widths = {x.shape[-1] for x in sites.values()}
    return [[name for name, x in sites.items() if x.shape[-1] == width] for width in widths]


def _read(
    z: Float[np.ndarray, "site n d"],
    y: Int[np.ndarray, " n"],
    new: Float[np.ndarray, "site m d"],
    kind: Kind,
    method: Method,
    seed: int,
) -> Sequence[Shaped[np.ndarray, " m"]]:
    """The values that each site's probe reads at the site's new activations."""
    if method == "mlp":
        return list(Perceptrons.fit(z, y, kind, seed).predict(new))
    sides = zip(z, new, strict=True)
    return [fit_linear(old, y, kind, method).predict(other) for old, other in sides]


def _score(truth: Int[np.ndarray, " m"], read: Shaped[np.ndarray, " m"], kind: Kind) -> float:
    """R2 of a count, accuracy of a category."""
    if kind == "category":
        return float((truth == read).mean())
    missed, spread = np.square(truth - read).sum(), np.square(truth - truth.mean()).sum()
    return float(1 - missed / spread) if spread else float(missed == 0)


def baseline(
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    most: Mapping[Kind, int] = MOST,
) -> pd.DataFrame:
    """The control that sees no activation: it always says the mean count or the commonest category.

    Arguments and columns are those of ``probe_sites``; probe and site are "none".
    """
    rows = []
    for (fit, test), cases in _cases(targets, train, seed, most):
        for name, target in cases.items():
            y, truth = target.values[fit], target.values[test]
            dummy = DummyRegressor() if target.kind == "count" else DummyClassifier()
            score = dummy.fit(y[:, None], y).score(truth[:, None], truth)
            rows.append({"probe": "none", **_row("none", name, target.kind, score, fit, test)})
    rows.sort(key=lambda row: list(targets).index(str(row["target"])))
    return pd.DataFrame(rows)


def _cases(
    targets: Mapping[str, Target], train: np.ndarray, seed: int, most: Mapping[Kind, int]
) -> Iterator[tuple[tuple[Positions, Positions], dict[str, Target]]]:
    """The positions to fit on and to score, with the targets that are fitted there.

    Targets of one kind that are defined at the same positions share them. A target that does not
    vary among the positions of the fit is left out.
    """
    groups = dict[tuple[Kind, bytes], dict[str, Target]]()
    for name, target in targets.items():
        groups.setdefault((target.kind, target.mask.tobytes()), {})[name] = target
    for (kind, _), cases in groups.items():
        mask = next(iter(cases.values())).mask
        rng = np.random.default_rng(seed)
        sides = []
        for side in (train, ~train):
            word, position = np.nonzero(mask & side[:, None])
            keep = np.sort(rng.permutation(len(word))[: most[kind]])
            sides.append((word[keep], position[keep]))
        fit, test = sides
        varying = {n: t for n, t in cases.items() if len(np.unique(t.values[fit])) > 1}
        if varying and len(test[0]) > 1:
            yield (fit, test), varying


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
