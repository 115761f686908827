"""Probes: which hidden variable can be read off which activation?

A probe is a small model that is trained to read a hidden variable off activations. It is fitted on
some words and scored on others: a word's positions are never on both sides. The best of many sites
is best by luck too. So words of a third kind can choose the site, and the score there is of words
that chose nothing. Counts are scored by R2, categories by accuracy. The model need not use what a
probe can read, and a probe may learn the task by itself. So every score stands beside its controls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.dummy import DummyClassifier, DummyRegressor

from interp.model import require_finite
from interp.probing.linear import Kind, LinearMethod, fit_linear, many_small_fits, standardise
from interp.probing.perceptrons import Perceptrons
from interp.statistics import bootstrap_sums

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
        types: the type on which the random value depends. In the paper it is the form of the word;
            in a language of two or three symbols take the symbol together with its position.
        train: values are drawn as often as they occur in these words.
        seed: seed of the draw.
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
    choose: Bool[np.ndarray, " batch"] | None = None,
) -> pd.DataFrame:
    """Fits one probe per method, site and target.

    Args:
        sites: activations by name.
        targets: the hidden variables by name.
        train: the words to fit on.
        choose: the words that choose among sites, see ``best_sites``; without it, none do. All
            words that are in neither are scored.
        seed: seed of the choice of positions, of the shuffle and of the perceptrons.
        shuffled: the control: the training labels are put in random order.
        most: the most positions of each part, by kind of variable. If there are more, they are
            drawn at random.
        methods: methods of ``fit_linear``, and "mlp": one hidden layer, see ``Perceptrons``.

    Returns:
        One row per method, site and target: probe (the method), site, target, metric, choice (the
        score on the words that choose; NaN if none do), score, low and high (95% bootstrap over the
        scored words), n_train and n_test (positions). The metric is "R2" (1 is perfect, 0 is no
        better than the mean, less is worse) or "accuracy" (0 to 1). A target has no probe and no
        row if it has one value among the training positions, or if a part has no position of it.

    Raises:
        ValueError: a word both fits the probes and chooses, or an activation is NaN or infinite.
    """
    rows = []
    with many_small_fits():
        for method in methods:
            limits = {k: min(n, MOST_OF_MLP) for k, n in most.items()} if method == "mlp" else most
            for split, cases in _cases(targets, train, choose, seed, limits):
                for together in _together(sites, method):
                    sides = [_standardised(sites[name], split, name) for name in together]
                    z, new = (np.stack(side) for side in zip(*sides, strict=True))
                    for name, target in cases.items():
                        y = target.values[split.fit]
                        if shuffled:
                            y = np.random.default_rng(seed).permutation(y)
                        read = _read(z, y, new, target.kind, method, seed)
                        for site, values in zip(together, read, strict=True):
                            rows.append(
                                {"probe": method, **_row(site, name, target, values, split)}
                            )
    order = {"probe": [*map(str, methods)], "target": [*targets], "site": [*sites]}
    rows.sort(key=lambda row: [names.index(str(row[key])) for key, names in order.items()])
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Split:
    """The positions that fit a probe, those that choose the site, and those that are scored."""

    fit: Positions
    choose: Positions
    score: Positions

    def new(self) -> Positions:
        """Those that a probe reads: first those that choose, then those that are scored."""
        word, position = map(np.concatenate, zip(self.choose, self.score, strict=True))
        return word, position


def _standardised(
    x: Float[np.ndarray, "batch pos d"], split: _Split, site: str
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Activations to fit and to read, scaled so that the former have mean 0 and variance 1."""
    old, new = x[split.fit], x[split.new()]
    for values in (old, new):
        require_finite(values, site)
    old, new = standardise(old, new)
    return old, new


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


def _sums(
    truth: Int[np.ndarray, " m"],
    read: Shaped[np.ndarray, " m"],
    word: Int[np.ndarray, " m"],
    kind: Kind,
) -> Float[np.ndarray, "word sums"]:
    """The terms of ``_SCORES``, summed over the positions of each word."""
    y = truth.astype(np.float64)
    parts = [np.ones_like(y), truth == read]
    if kind == "count":
        y -= y.mean()  # R2 does not change, and no digits cancel
        parts = [np.ones_like(y), np.square(truth - read), y, np.square(y)]
    _, unit = np.unique(word, return_inverse=True)
    return np.stack([np.bincount(unit, weights=part) for part in parts], axis=1)


def _accuracy(sums: Float[np.ndarray, "*draws 2"]) -> Float[np.ndarray, "*draws"]:
    count, right = np.moveaxis(sums, -1, 0)
    return np.asarray(right / count)


def _r2(sums: Float[np.ndarray, "*draws 4"]) -> Float[np.ndarray, "*draws"]:
    """Where the truth does not vary: 1 if all of it is right, else 0."""
    count, missed, total, squares = np.moveaxis(sums, -1, 0)
    spread = squares - total**2 / count
    varies = spread > 1e-12 * count
    return np.where(varies, 1 - missed / np.where(varies, spread, 1), missed == 0)


_SCORES = {"count": _r2, "category": _accuracy}


def baseline(
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    seed: int = 0,
    most: Mapping[Kind, int] = MOST,
    choose: Bool[np.ndarray, " batch"] | None = None,
) -> pd.DataFrame:
    """The control that sees no activation: it always says the mean count or the commonest category.

    Arguments and columns are those of ``probe_sites``; probe and site are "none".
    """
    rows = []
    for split, cases in _cases(targets, train, choose, seed, most):
        for name, target in cases.items():
            y = target.values[split.fit]
            dummy = DummyRegressor() if target.kind == "count" else DummyClassifier()
            read = dummy.fit(y[:, None], y).predict(np.empty((len(split.new()[0]), 1)))
            rows.append({"probe": "none", **_row("none", name, target, read, split)})
    rows.sort(key=lambda row: list(targets).index(str(row["target"])))
    return pd.DataFrame(rows)


def _cases(
    targets: Mapping[str, Target],
    train: Bool[np.ndarray, " batch"],
    choose: Bool[np.ndarray, " batch"] | None,
    seed: int,
    most: Mapping[Kind, int],
) -> Iterator[tuple[_Split, dict[str, Target]]]:
    """The positions of each part, with the targets that are fitted there.

    Targets of one kind that are defined at the same positions share them. A target that does not
    vary among the positions of the fit is left out.
    """
    choosing = np.zeros_like(train) if choose is None else choose
    if (train & choosing).any():
        raise ValueError("a word that fits the probes cannot choose the site: take other words")
    groups = dict[tuple[Kind, bytes], dict[str, Target]]()
    for name, target in targets.items():
        groups.setdefault((target.kind, target.mask.tobytes()), {})[name] = target
    for (kind, _), cases in groups.items():
        mask = next(iter(cases.values())).mask
        rng = np.random.default_rng(seed)
        sides = []
        for side in (train, choosing, ~train & ~choosing):
            word, position = np.nonzero(mask & side[:, None])
            keep = np.sort(rng.permutation(len(word))[: most[kind]])
            sides.append((word[keep], position[keep]))
        split = _Split(*sides)
        varying = {n: t for n, t in cases.items() if len(np.unique(t.values[split.fit])) > 1}
        if varying and len(split.score[0]) > 1 and (choose is None or len(split.choose[0])):
            yield split, varying


def _row(
    site: str, name: str, target: Target, read: Shaped[np.ndarray, " m"], split: _Split
) -> dict[str, object]:
    score, chosen = _SCORES[target.kind], len(split.choose[0])
    choice = float("nan")
    if chosen:
        truth = target.values[split.choose]
        choice = float(score(_sums(truth, read[:chosen], split.choose[0], target.kind).sum(axis=0)))
    truth = target.values[split.score]
    sums = _sums(truth, read[chosen:], split.score[0], target.kind)
    value, low, high = map(float, bootstrap_sums(sums, score))
    return {
        "site": site,
        "target": name,
        "metric": METRIC[target.kind],
        "choice": choice,
        "score": value,
        "low": low,
        "high": high,
        "n_train": len(split.fit[0]),
        "n_test": len(split.score[0]),
    }
