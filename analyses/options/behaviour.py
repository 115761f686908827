"""Options of the questions about how right a run is, and by which rule."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from analyses.options.shared import Checked, Seed
from models.checks import MOST_SYMBOLS
from models.errors import UserError


def length_range(text: str) -> range:
    """FIRST:LAST as a range; an empty one where that is not what it says, or beyond what a word may
    have."""
    match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)
    first, last = map(int, match.groups()) if match else (0, 0)
    return range(first, last + 1) if first >= 1 and last <= MOST_SYMBOLS else range(0)


@dataclass(frozen=True)
class Accuracy(Checked):
    """Words on which the model is evaluated.

    Attributes:
        max_n: the largest size to test, from 1 on; by default twice the training window.
        lengths: the word lengths to test, instead of sizes: FIRST:LAST, both included.
        count: the number of test words per length. Half of them are members, if there are any.
        seed: the seed that draws the test words.
        all_words: test all words up to this length too; 0 leaves that out. By default, as long
            words as there are at most 100,000 of, and none longer than those tested anyway.
    """

    max_n: Annotated[int, Interval(ge=1, le=10_000)] | None = None
    lengths: str | None = None
    count: Annotated[int, Interval(ge=1, le=100_000)] = 64
    seed: Seed = 0
    all_words: Annotated[int, Interval(ge=0, le=10_000)] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lengths is not None:
            self.range()
            if self.max_n is not None:
                raise UserError("--lengths stands instead of --max-n: leave one of them out")

    def range(self) -> Sequence[int]:
        """The word lengths given. Raises UserError for a range that is none."""
        lengths = length_range(str(self.lengths))
        if not lengths:
            raise UserError(
                f"--lengths is {self.lengths!r}: write FIRST:LAST, for example 41:500, from 1 to "
                f"{MOST_SYMBOLS}, the smaller one first"
            )
        return lengths


@dataclass(frozen=True)
class Perplexity(Checked):
    """Words after which the next-token distribution is held against the language's own.

    Attributes:
        by: what words are told apart by: their length, or the depth of embedding in their tree.
        count: words of each length; of each depth at most.
        deepest: the largest depth of embedding; 0 is a word without any.
        seed: of the words.
    """

    by: Literal["length", "depth"] = "length"
    count: Annotated[int, Interval(ge=2, le=100_000)] = 64
    deepest: Annotated[int, Interval(ge=0, le=12)] = 6
    seed: Seed = 0


@dataclass(frozen=True)
class Depths(Checked):
    """Words by their depth of embedding, of a run on a grammar.

    Attributes:
        count: different words of each depth.
        deepest: the largest depth of embedding; 0 is a word without any.
        seed: of the words.
    """

    count: Annotated[int, Interval(ge=1, le=100_000)] = 64
    deepest: Annotated[int, Interval(ge=0, le=12)] = 6
    seed: Seed = 0


@dataclass(frozen=True)
class Targets(Checked):
    """Is the target of a source right, and what follows after an error? Of runs on pairs.

    Attributes:
        by: what is told apart: the length of the source, or the place in the target.
        windows: the longest pairs, in training windows; by place always 1.
        count: different pairs of each length of the source at most.
        seed: of the pairs.
    """

    by: Literal["length", "place"] = "length"
    windows: Annotated[float, Interval(ge=0.1, le=100.0)] = 2.0
    count: Annotated[int, Interval(ge=2, le=100_000)] = 64
    seed: Seed = 0


@dataclass(frozen=True)
class Steps(Checked):
    """A written step is turned around: does what follows believe it? Of runs on parity-steps.

    Attributes:
        count: pairs; one step of each is turned around.
        seed: of the pairs and the steps.
    """

    count: Annotated[int, Interval(ge=2, le=100_000)] = 200
    seed: Seed = 0


@dataclass(frozen=True)
class InContext(Checked):
    """Does the answer follow the examples in the prompt? Of runs on in-context.

    Attributes:
        count: prompts of each number of examples.
        seed: of the prompts.
    """

    count: Annotated[int, Interval(ge=2, le=100_000)] = 500
    seed: Seed = 0


@dataclass(frozen=True)
class Bias(Checked):
    """Which of two rules did networks take whose training words fit both?

    Attributes:
        words: words on which the rules differ, and as many on which they agree.
        seed: of the words.
    """

    words: Annotated[int, Interval(ge=2, le=100_000)] = 1000
    seed: Seed = 0
