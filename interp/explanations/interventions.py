"""The causal effect of each symbol: one position is changed, the others stay."""

from __future__ import annotations

import numpy as np

from interp.explanations.case import Case, Values
from interp.explanations.games import Game


def leave_one_out(game: Game) -> Values:
    """What the score loses when one position alone is hidden."""
    size = len(game.word)
    value = game(np.vstack([np.ones(size, dtype=bool), ~np.eye(size, dtype=bool)]))
    return value[0] - value[1:]


def substitution(case: Case) -> Values:
    """The causal effect of each position: what the score loses by the one other symbol there that
    moves it most."""
    word, size = case.game.word, len(case.game.word)
    words = np.broadcast_to(word, (size, len(case.symbols), size)).copy()
    words[np.arange(size), :, np.arange(size)] = case.symbols
    flat = np.vstack([word[None], words.reshape(-1, size)])
    case.game.calls += len(flat)
    score = case.game.score(flat)
    change = score[0] - score[1:].reshape(size, -1)
    return change[np.arange(size), np.abs(change).argmax(axis=1)]
