"""The options of what is measured in several runs at once, and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from analyses.options.shared import Shows, at_least, check_seed
from models.errors import UserError


@dataclass(frozen=True)
class OfRuns(Shows):
    """A measure of runs.

    Attributes:
        runs: folders of runs.
        seed: of what is drawn.
        step: the checkpoint that is asked; by default the last one.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.runs:
            raise UserError("no run is given: name the folder of a run, or of several")
        at_least(0, self, "step")
        check_seed(self.seed)


@dataclass(frozen=True)
class Reach(OfRuns):
    """How strongly does a symbol k places back reach the last logit, and by how many steps?

    Attributes:
        runs: folders of runs, such as those of several architectures on one language.
        count: different words, all of one length, in the language or not.
        length: of these words, in symbols; 0 takes the longest of the training window, up to 64.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    count: int = 60
    length: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "count")
        at_least(0, self, "length")


@dataclass(frozen=True)
class Dimension(OfRuns):
    """How many dimensions do the activations fill, layer by layer?

    Attributes:
        runs: folders of runs.
        words: words of the training window.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    words: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "words")


@dataclass(frozen=True)
class Bias(OfRuns):
    """Which of two rules did networks take whose training words fit both?

    Attributes:
        runs: folders of runs on first-or-majority, contains-or-even or ends-or-even.
        words: words on which the rules differ, and as many on which they agree.
        seed: of the words.
        step: the checkpoint that is asked; by default the last one.
    """

    words: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "words")


@dataclass(frozen=True)
class Cosine(OfRuns):
    """Does a head score tokens higher, the more alike their embeddings are?

    Attributes:
        runs: folders of runs of Transformers.
        seed: of the permutations that test it.
        step: the checkpoint that is asked; by default the last one.
    """
