"""SHAP's axiom of consistency: who contributes more never gets less (Lundberg and Lee 2017).

Raise the contribution of one position, in every coalition of the others by another amount of at
least 0, and leave all coalitions without it alone. Its value must not fall. Shapley values obey;
a sampled estimate or a fitted linear model need not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from interp.explanations.games import Game


def _raised(game: Game, seed: int, times: int = 4) -> Game:
    """Many games in one: the game itself is output 0; in each other output one position is raised.

    Each position is raised ``times`` times in a row, in one coalition each time, by the spread of
    the game. The coalition is that of the positions before it in a random order: small and large
    ones are equally likely.

    Args:
        game: a game of one output.
        seed: seed of the orders.
    """
    size, values = len(game.word), game.values()
    place = np.repeat(np.arange(size), times)
    rank = np.random.default_rng(seed).random((len(place), size)).argsort(axis=1)
    before = rank < rank[np.arange(len(place)), place][:, None]
    others = before @ (1 << np.arange(size))
    table = np.repeat(values[:, None], 1 + len(place), axis=1)
    table[others | (1 << place), 1 + np.arange(len(place))] += values.std()
    # Nothing is scored: all values are known. The link only says how many outputs there are.
    return replace(game, link=lambda x: np.repeat(x[..., None], table.shape[1], -1), _values=table)


def consistency(
    explain: Callable[[Game], Float[np.ndarray, "output time"]], game: Game, seed: int = 0
) -> float:
    """The share of raises after which the value of the raised position has not fallen.

    Args:
        explain: explains all outputs of a game with one set of queries.
        game: a game of one output; its values are known or become so.
        seed: seed of the coalitions in which a position is raised.

    Returns:
        1 if the axiom held every time; NaN if the game is constant.
    """
    play = _raised(game, seed)
    if not play.values()[:, 0].std() > 1e-9:
        return float("nan")
    values = explain(play)
    place = np.repeat(np.arange(len(game.word)), (len(values) - 1) // len(game.word))
    tolerance = 1e-6 * np.abs(values).max()
    return float((values[1:][np.arange(len(place)), place] >= values[0, place] - tolerance).mean())
