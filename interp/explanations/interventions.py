"""The causal effect of each symbol: one position is changed, the others stay."""

from __future__ import annotations

import numpy as np

from interp.explanations.case import Case, Values
from interp.explanations.games import Game


def leave_one_out(game: Game) -> Values:
    """The fall of each output when one position alone is hidden, [*outputs, time].

    In the unit of the output; positive means that the symbol raises it.
    """
    size = len(game.word)
    value = game(np.vstack([np.ones(size, dtype=bool), ~np.eye(size, dtype=bool)]))
    return (value[0] - value[1:]).T


def substitution(case: Case) -> Values:
    """The fall of an output when one symbol is replaced by the one that changes it most.

    [*outputs, time], in the unit of the output; positive means that the symbol raises it more than
    that other one. Each output has its own largest change.
    """
    word, size = case.game.word, len(case.game.word)
    words = np.broadcast_to(word, (size, len(case.symbols), size)).copy()
    words[np.arange(size), :, np.arange(size)] = case.symbols
    flat = np.vstack([word[None], words.reshape(-1, size)])
    case.game.calls += len(flat)
    value = case.game.link(case.game.score(flat))
    change = (value[0] - value[1:]).reshape(size, -1, *value.shape[1:])
    largest = np.abs(change).argmax(axis=1, keepdims=True)
    return np.take_along_axis(change, largest, axis=1)[:, 0].T
