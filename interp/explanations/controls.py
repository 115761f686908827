"""Explanations to compare with. They do not look at the model."""

from __future__ import annotations

import numpy as np

from interp.explanations.case import Case, Values
from interp.explanations.games import exact_shapley


def noise(case: Case, seed: int) -> Values:
    """Random values: this control knows nothing."""
    return np.random.default_rng(seed).normal(size=len(case.game.word))


def position(case: Case) -> Values:
    """The position alone: later symbols get larger values, 1 to T."""
    return np.arange(1.0, 1.0 + len(case.game.word))


def oracle(case: Case) -> Values:
    """1 where the first of the rationales says that a symbol decides, else 0."""
    assert case.rationales is not None
    return np.isin(np.arange(len(case.game.word)), case.rationales[0]).astype(np.float64)


def language(case: Case) -> Values:
    """Exact Shapley values of membership in the language itself."""
    assert case.truth is not None
    return exact_shapley(case.truth)
