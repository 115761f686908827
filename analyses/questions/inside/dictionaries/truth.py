"""The truth at every position of words: facts, the directions that hold them, and cases.

The truth of a planted network is its program; that of any other run is the state of its language.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.words import WordTensors, one_of_each
from interp.dictionaries.clamping import Clamps
from models.languages import Words
from models.runs.run import Run

MOST_FACTS = 64
"""Facts that are scored at most: those that hold most often."""
LEAST_HELD = 5
"""The fewest positions at which a fact must hold, and fail, in each half of the words."""
MOST_POSITIONS = 2000
"""The most positions of each half."""


@dataclass(frozen=True)
class Variable:
    """A variable with its value at every position.

    Attributes:
        name: the variable's name.
        values: the number of its value at each position.
        facts: the name of the fact that the variable has a value, by the value's number. A value
            without a name needs no latent: a number that is 0, or low.
    """

    name: str
    values: Int[np.ndarray, "word pos"]
    facts: Mapping[int, str]


@dataclass(frozen=True)
class _Half:
    """Positions of one half of the words.

    Attributes:
        word, pos: the word and the position of each.
        facts: which facts hold there.
    """

    word: Int[np.ndarray, " n"]
    pos: Int[np.ndarray, " n"]
    facts: Bool[np.ndarray, "n fact"]

    @property
    def at(self) -> tuple[np.ndarray, np.ndarray]:
        return self.word, self.pos


@dataclass(frozen=True)
class Truth:
    """The truth about words.

    Attributes:
        words: words of the training window.
        names: the names of the facts.
        fit: the positions that train dictionaries and choose latents and thresholds.
        score: the positions that are scored.
        directions: the vectors that the variables add to the site; None if these are not known.
        signed: which of these directions also have a negative side.
        varies: which of them vary where dictionaries are trained.
        choosing: cases that move a variable, for the choice of latents; None where no truth tells
            what is right then.
        clamps: such cases of other words, which are scored.
    """

    words: WordTensors
    names: Sequence[str]
    fit: _Half
    score: _Half
    directions: Float[Tensor, "known d"] | None = None
    signed: Bool[Tensor, " known"] | None = None
    varies: Bool[Tensor, " known"] | None = None
    choosing: Clamps | None = None
    clamps: Clamps | None = None


def halves_of(
    run: Run, words: Words, mask: Bool[np.ndarray, "word pos"], seed: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The positions of both halves of the words. Of each prefix one occurrence is taken, so that
    no position is in both halves."""
    once = mask & one_of_each(words, not run.config.model.causal, seed)
    rng = np.random.default_rng(seed)
    first = rng.permutation(len(words)) % 2 == 0
    halves = []
    for side in (first, ~first):
        word, pos = np.nonzero(once & side[:, None])
        keep = np.sort(rng.permutation(len(word))[:MOST_POSITIONS])
        halves.append((word[keep], pos[keep]))
    return halves[0], halves[1]


def facts_of(
    variables: Sequence[Variable], fit: tuple[np.ndarray, ...], score: tuple[np.ndarray, ...]
) -> tuple[dict[tuple[str, int], int], list[str], _Half, _Half]:
    """The facts that hold often enough in both halves, and fail often enough.

    Returns:
        The number of each fact by variable and value, their names, and both halves.
    """
    kept: list[tuple[str, int, str, np.ndarray, np.ndarray]] = []
    for variable in variables:
        for value, name in variable.facts.items():
            one, other = (variable.values[at] == value for at in (fit, score))
            counts = [one.sum(), (~one).sum(), other.sum(), (~other).sum()]
            if min(counts) >= LEAST_HELD:
                kept.append((variable.name, value, name, one, other))
    often = sorted(range(len(kept)), key=lambda i: -kept[i][3].sum())[:MOST_FACTS]
    kept = [kept[i] for i in sorted(often)]
    numbers = {(variable, value): i for i, (variable, value, *_) in enumerate(kept)}
    parts = []
    for at, side in ((fit, 3), (score, 4)):
        columns = [fact[side] for fact in kept]
        facts = np.stack(columns, axis=1) if columns else np.zeros((len(at[0]), 0), dtype=bool)
        parts.append(_Half(at[0], at[1], facts))
    return numbers, [name for _, _, name, *_ in kept], parts[0], parts[1]
