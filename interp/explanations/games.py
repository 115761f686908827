"""The game that LIME and SHAP explain: what is a word worth when some of its symbols are hidden?

A hidden symbol is replaced, never deleted: deleting one would change the length, and so the n of
a^n b^n. A coalition is a set of positions that are kept. Its value is the mean of a score over the
replacements given. Up to EXACT_LIMIT positions all 2^T values are computed in one batch. Shapley's
values, the best and the worst order in which to hide positions, and all that a library asks are
then read off them.

A model's verdict has two scales, probability and log odds, and they make two games. Their mean over
the replacements differs, and so do their Shapley values. One score of a word serves both: the score
is the log odds, and ``on_both_scales`` makes both numbers of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import factorial

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import expit

Score = Callable[[Int[np.ndarray, "batch time"]], Float[np.ndarray, " batch"]]
"""The explained score: one number for each word. Words are token ids without BOS, of one length."""
Link = Callable[[Float[np.ndarray, "*words"]], Float[np.ndarray, "*words_and_outputs"]]
"""A map of scores before their mean is taken; several outputs stand on a last axis."""

SCALES = ("probability", "log odds")
"""The scales of a verdict, in the order of the outputs of ``on_both_scales``."""

EXACT_LIMIT = 12  # 2^12 coalitions


def _itself(scores: Float[np.ndarray, "*words"]) -> Float[np.ndarray, "*words"]:
    """The link of a game whose score is explained as it is."""
    return scores


def on_both_scales(log_odds: Float[np.ndarray, "*words"]) -> Float[np.ndarray, "*words scale"]:
    """The link of a verdict: its probability and its log odds (``SCALES``)."""
    return np.stack([expit(log_odds), log_odds], axis=-1)


@dataclass
class Game:
    """The value of keeping some positions of a word.

    Attributes:
        score: the score of words.
        word: token ids without BOS, [time].
        replacements: words whose symbols take the places of hidden symbols, [draws, time].
        link: the map from each score to what is explained: one output, or several on a last axis.
        calls: words asked about so far, whether they were scored or remembered.
    """

    score: Score
    word: Int[np.ndarray, " time"]
    replacements: Int[np.ndarray, "draws time"]
    link: Link = _itself
    calls: int = 0
    _values: Float[np.ndarray, "subset *outputs"] | None = field(default=None, repr=False)

    def __call__(
        self, keep: Bool[np.ndarray, "coalition time"]
    ) -> Float[np.ndarray, "coalition *outputs"]:
        """The value of each coalition; True keeps a position, False hides it."""
        keep = np.asarray(keep, dtype=bool)
        self.calls += len(keep) * len(self.replacements)
        if self._values is not None:
            return self._values[keep @ (1 << np.arange(len(self.word)))]
        words = np.where(keep[:, None], self.word, self.replacements[None])
        scores = self.score(words.reshape(-1, len(self.word)))
        return self.link(scores.reshape(len(keep), -1)).mean(axis=1)

    @property
    def remembers(self) -> bool:
        """Are all 2^time values known?"""
        return self._values is not None

    def fresh(self) -> Game:
        """The same game, of which nothing has been asked yet."""
        return Game(self.score, self.word, self.replacements, self.link)

    def on(self, scale: str) -> Game:
        """The game of one of the ``SCALES`` alone; it remembers what this one does."""
        output = SCALES.index(scale)
        values = None if self._values is None else self._values[..., output]
        link = self.link
        return Game(
            self.score, self.word, self.replacements, lambda x: link(x)[..., output], 0, values
        )

    def values(self) -> Float[np.ndarray, "subset *outputs"]:
        """The values of all 2^time coalitions; bit i of the index says that position i is kept.

        They are remembered, so that later questions need no call of the score.

        Raises:
            ValueError: the word is longer than EXACT_LIMIT.
        """
        if self._values is None:
            self._values = self(subsets(len(self.word)))
        return self._values


def subsets(size: int) -> Bool[np.ndarray, "subset time"]:
    """All 2^size coalitions; bit i of the row's number says that position i is kept.

    Raises:
        ValueError: ``size`` is above EXACT_LIMIT.
    """
    if size > EXACT_LIMIT:
        raise ValueError(f"{size} symbols make 2^{size} coalitions: explain at most {EXACT_LIMIT}")
    return (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 1


def exact_shapley(game: Game) -> Float[np.ndarray, "*outputs time"]:
    """Shapley's values from all 2^time coalitions in one batch.

    phi_i = sum over S without i of |S|! (T-|S|-1)! / T! (v(S + i) - v(S))   (Shapley 1953)

    Returns:
        One value per symbol, in the unit of the output, [*outputs, time]; positive means that the
        symbol raises it.

    Raises:
        ValueError: the word is longer than EXACT_LIMIT.
    """
    size = len(game.word)
    keep = subsets(size)
    calls = game.calls + len(keep) * len(game.replacements)
    value, members = game.values(), keep.sum(axis=1)
    game.calls = calls  # counted once, whether the values were remembered or not
    weight = np.array(
        [factorial(k) * factorial(size - k - 1) for k in range(size)], dtype=np.float64
    )
    weight /= factorial(size)
    phi = np.empty((*value.shape[1:], size))
    for i in range(size):
        without = np.flatnonzero(~keep[:, i])
        gain = value[without | (1 << i)] - value[without]
        phi[..., i] = weight[members[without]] @ gain
    return phi


def curve(
    game: Game, order: Int[np.ndarray, "*orders time"], show: bool
) -> Float[np.ndarray, "*orders time_plus_1"]:
    """The value after 0, 1, ..., T positions were hidden, or shown, one after the other.

    Args:
        order: the positions, the first to change first.
        show: True starts with all positions hidden and shows them; False starts with the whole word
            and hides them.
    """
    size = order.shape[-1]
    rank = np.argsort(order, axis=-1)
    changed = rank[..., None, :] < np.arange(size + 1)[:, None]  # [..., step, time]
    keep = changed if show else ~changed
    return game(keep.reshape(-1, size)).reshape(keep.shape[:-1])


def extreme_curves(values: Float[np.ndarray, " subset"]) -> tuple[float, float]:
    """The smallest and the largest mean of a ``curve`` over all orders of hiding (or showing).

    A curve is a chain from the empty to the full coalition. So dynamic programming over the subsets
    finds both exactly, where Edin et al. (2025) use a beam search.

    Args:
        values: values of all coalitions, as ``Game.values`` gives them.
    """
    size = len(values).bit_length() - 1
    least, most = values.copy(), values.copy()
    keep = subsets(size)
    members = keep.sum(axis=1)
    for count in range(1, size + 1):
        here = np.flatnonzero(members == count)
        before = here[:, None] ^ (1 << np.nonzero(keep[here])[1].reshape(len(here), count))
        least[here] += least[before].min(axis=1)
        most[here] += most[before].max(axis=1)
    return float(least[-1]) / (size + 1), float(most[-1]) / (size + 1)


def mean_curve(values: Float[np.ndarray, " subset"]) -> Float[np.ndarray, " time_plus_1"]:
    """The mean ``curve`` over all orders of showing: the mean value by number of kept positions.

    Args:
        values: values of all coalitions, as ``Game.values`` gives them.
    """
    members = subsets(len(values).bit_length() - 1).sum(axis=1)
    return np.bincount(members, values) / np.bincount(members)
