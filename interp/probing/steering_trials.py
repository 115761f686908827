"""Is a variable used as a quantity? If k is added to it, what follows should move by k."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from torch import Tensor

from interp.probing.steering import adding, random_direction
from interp.statistics import bootstrap_mean, in_halves

DRAWS = 3  # of random directions
MEAN_K = "moved by k, mean"

Outcome = Callable[..., Float[np.ndarray, "k word"]]
"""A function of TransformerLens hooks, pairs of name and function. It returns a number read off
each word, such as where the word ends; NaN if there is none. The model runs on a copy of the words
for each k, one copy after the other."""


@dataclass(frozen=True)
class SteeringTrials:
    """Words that are steered by several k, and what is read off them.

    Attributes:
        ks: the amount added to the variable in each copy of the words.
        outcome: the number that should move by k.
    """

    ks: Int[np.ndarray, " k"]
    outcome: Outcome

    @cached_property
    def unsteered(self) -> Float[np.ndarray, "k word"]:
        return self.outcome()

    def along(
        self, hook: str, direction: Float[Tensor, " d"], amount: Float[Tensor, "copies pos"]
    ) -> pd.DataFrame:
        """Adds a direction to the activations of all copies, and as controls random directions.

        Args:
            hook: the hook at which it is added.
            direction: the direction of the variable, in activation units per unit of the variable.
            amount: number of times that it is added at each position of each copy of each word, in
                the order of the ``Outcome``.

        Returns:
            The rows of ``outcomes``, and method: "steered", or "random direction", the mean over
            directions as long as the one given.
        """
        drawn = [random_direction(direction, seed) for seed in range(DRAWS)]
        steered = self.by(hook, adding(direction, amount)).assign(method="steered")
        shifts = [self._shift(hook, adding(vector, amount)) for vector in drawn]
        random = outcomes(self.ks, np.stack(shifts)).assign(method="random direction")
        return pd.concat([steered, random], ignore_index=True)

    def by(self, hook: str, change: Callable[..., Tensor]) -> pd.DataFrame:
        """The rows of ``outcomes`` for any change at a hook; the function gets all copies."""
        return outcomes(self.ks, self._shift(hook, change)[None])

    def _shift(self, hook: str, change: Callable[..., Tensor]) -> Float[np.ndarray, "k word"]:
        return self.outcome((hook, change)) - self.unsteered


def outcomes(ks: Int[np.ndarray, " k"], shift: Float[np.ndarray, "draw k word"]) -> pd.DataFrame:
    """The moves of the outcome, by k.

    Args:
        ks: the amounts added to the variable.
        shift: the move of the outcome, in its own unit; NaN where there is no outcome. Draws
            are averaged.

    Returns:
        One row per measure and k: measure, amount (k), choice, value, low, high (95% bootstrap over
        words), words. The measure "moved by k" is the share of words whose outcome moved by exactly
        k; a word without an outcome did not. Its choice is over every other word, which may choose
        a site, and its value over the words between. "moved by k, mean" is its mean over all k; its
        amount is 0. "shift" is the mean shift of all words with an outcome.
    """
    exact = (shift == ks[:, None]).mean(axis=0)
    choice, value, low, high = in_halves(exact.T)
    rows: list[dict[str, str | int | float]] = []
    for i, k in enumerate(ks.tolist()):
        number = {"choice": choice[i], "value": value[i], "low": low[i], "high": high[i]}
        number["words"] = max(1, exact.shape[1] // 2)
        rows.append({"measure": "moved by k", "amount": k})
        rows[-1] |= {name: float(v) for name, v in number.items()}
        moved = shift[:, i].ravel()
        moved = moved[~np.isnan(moved)]
        interval = bootstrap_mean(moved) if len(moved) else (np.nan,) * 3
        rows.append({"measure": "shift", "amount": k, "words": len(moved) / len(shift)})
        rows[-1] |= dict(zip(("value", "low", "high"), map(float, interval), strict=True))
    every = zip(("choice", "value", "low", "high"), in_halves(exact.mean(axis=0)), strict=True)
    rows.append({"measure": MEAN_K, "amount": 0, "words": max(1, exact.shape[1] // 2)})
    rows[-1] |= {name: float(number) for name, number in every}
    return pd.DataFrame(rows)
