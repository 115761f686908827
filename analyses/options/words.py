"""Options of the questions about the symbols of a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from analyses.options.shared import Checked, Seed
from models.errors import UserError

Replacement = Literal["uniform", "data", "fixed"]
"""The stand-ins for hidden symbols. "uniform": symbols drawn evenly. "data": symbols of other
words of the same length, members and near misses of the language. "fixed": the first symbol of the
alphabet, everywhere."""
SHORTEST, LONGEST = 4, 12
"""The shortest and longest words of a leaderboard: all subsets of 12 symbols can be tried."""


@dataclass(frozen=True)
class Explanations(Checked):
    """A word to explain, and the effort of the methods.

    Attributes:
        word: the word to explain; by default a printed line for a Dutch rule, else a near miss.
        n: the size of the default word.
        replacement: what stands in for hidden symbols: symbols drawn evenly (uniform), symbols of
            other words of the language and its near misses (data), or one symbol (fixed).
        samples: the number of coalitions that LIME and SHAP may ask for. A coalition is a set of
            symbols that stay visible.
        draws: the number of replacements over which the model's probability of "in the language"
            is averaged.
        steps: the largest number of points on the line from each replacement to the word at which
            integrated gradients take the gradient. They take as many as they need to miss their sum
            by less than 1%, and 24 at least.
        seed: the seed of the replacements and of the methods.
    """

    word: str | None = None
    n: Annotated[int, Interval(ge=1, le=10_000)] = 5
    replacement: Replacement = "uniform"
    samples: Annotated[int, Interval(ge=16, le=1_000_000)] = 512
    draws: Annotated[int, Interval(ge=1, le=10_000)] = 8
    steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] = 384
    seed: Seed = 0


@dataclass(frozen=True)
class Leaderboard(Checked):
    """Which words to explain.

    Attributes:
        words: the number of fresh words to draw: half members, half near misses. A word that is
            drawn again is not explained again.
        longest: the largest number of symbols in a word; at most 12, so that all subsets of its
            symbols can be tried.
        replacements: what stands in for hidden symbols, each in turn; by default all three.
        samples: the number of coalitions that LIME and SHAP may ask for. A coalition is a set of
            symbols that stay visible.
        draws: the number of replacements over which the model's probability of "in the language"
            is averaged.
        steps: the largest number of points on the line from each replacement to the word at which
            integrated gradients take the gradient. They take as many as they need to miss their sum
            by less than 1%, and 24 at least.
        seed: the seed of the words, the replacements and the methods.
    """

    words: Annotated[int, Interval(ge=1, le=100_000)] = 100
    longest: int = 10
    replacements: tuple[Replacement, ...] = ()
    samples: Annotated[int, Interval(ge=16, le=1_000_000)] = 256
    draws: Annotated[int, Interval(ge=1, le=10_000)] = 8
    steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] = 384
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not SHORTEST <= self.longest <= LONGEST:
            raise UserError(
                f"--longest is {self.longest}: it must be {SHORTEST} to {LONGEST}, "
                "so that all subsets of a word can be tried"
            )
