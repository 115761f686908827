"""Options of the questions about what training did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from analyses.options.shared import Checked, Seed, Trains, Works
from models.errors import UserError


@dataclass(frozen=True)
class Emergence(Checked):
    """Words by which a training is followed.

    Attributes:
        words: the number of words, drawn from the training window. Half of them fit the probes at
            each checkpoint, a quarter choose the best site, and the others score the probes.
        count: the number of test words per length on which each checkpoint is judged.
        seed: the seed that draws the words.
    """

    words: Annotated[int, Interval(ge=8, le=100_000)] = 200
    count: Annotated[int, Interval(ge=1, le=100_000)] = 16
    seed: Seed = 0


@dataclass(frozen=True)
class Gradients(Checked):
    """Words on which gradients and the drift of activations are measured.

    Attributes:
        words: words of the training window.
        seed: of the words.
    """

    words: Annotated[int, Interval(ge=1, le=100_000)] = 128
    seed: Seed = 0


@dataclass(frozen=True)
class Landscape(Checked):
    """Words and directions along which the loss is bent.

    Attributes:
        words: words of the training window.
        directions: random directions along which the loss is bent.
        seed: of words and directions.
    """

    words: Annotated[int, Interval(ge=1, le=100_000)] = 128
    directions: Annotated[int, Interval(ge=1, le=1000)] = 10
    seed: Seed = 0


InfluenceMethod = Literal["dot", "cosine", "fisher", "ek-fac", "tracin"]


@dataclass(frozen=True)
class Influence(Trains, Works):
    """Trainings without some lines, of a run that was trained with --lines.

    Methods that read gradients are scored against trainings that lacked half of the lines, and by
    whether they find known culprits: labels that were turned around, and lines with a planted
    shortcut.

    Attributes:
        subsets: number of trainings, each on half of the lines.
        targets: number of words whose answers are explained; none is a training line.
        culprits: the share of lines that are spoiled, to be found again: labels are turned around,
            or a shortcut is planted.
        seed: seed of the halves and of the culprits.
    """

    subsets: Annotated[int, Interval(ge=10, le=10_000)] = 100
    targets: Annotated[int, Interval(ge=2, le=250)] = 40
    culprits: float = 0.1
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.culprits <= 0.5:
            raise UserError(f"--culprits is {self.culprits:g}: it must lie above 0, up to 0.5")


@dataclass(frozen=True)
class Lines(Checked):
    """Lines to list, of a run that was trained with --lines.

    Attributes:
        word: list what each line adds to the log odds of the right answer on this word; without a
            word, list the lines whose labels may be wrong, the likeliest first.
        method: how the influence of a line is estimated.
        seed: seed of what a method draws.
    """

    word: str | None = None
    method: InfluenceMethod = "ek-fac"
    seed: Seed = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.word is None and self.method == "cosine":
            raise UserError(
                "--method cosine finds no suspects: that of every line with itself is 1; choose "
                "another one, or give a --word"
            )
