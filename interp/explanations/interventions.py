"""The causal effect of each symbol: one position is changed, the others stay."""

from __future__ import annotations

import numpy as np

from interp.explanations.case import Case, Values
from interp.explanations.games import Game


def leave_one_out(game: Game) -> Values:
    """How much the score falls when one position alone is hidden.

    In the unit of the score; positive means that the symbol raises it.
    """
    size = len(game.word)
    value = game(np.vstack([np.ones(size, dtype=bool), ~np.eye(size, dtype=bool)]))
    return value[0] - value[1:]


def substitution(case: Case) -> Values:
    """How much the score falls when one symbol is replaced by the one that changes the score most.

    In the unit of the score; positive means that the symbol raises it more than that other one.
    """
    word, size = case.game.word, len(case.game.word)
    words = np.broadcast_to(word, (size, len(case.symbols), size)).copy()
    words[np.arange(size), :, np.arange(size)] = case.symbols
    flat = np.vstack([word[None], words.reshape(-1, size)])
    case.game.calls += len(flat)
    score = case.game.score(flat)
    change = score[0] - score[1:].reshape(size, -1)
    return change[np.arange(size), np.abs(change).argmax(axis=1)]
