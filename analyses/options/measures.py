"""The options of what is measured in several runs at once, and not kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tyro

from analyses.options.shared import Shows, at_least, check_picture, check_seed
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


@dataclass(frozen=True)
class Gradients(OfRuns):
    """Where does the gradient arrive, layer by layer, and how far do activations move in training?

    Attributes:
        runs: folders of runs.
        words: words of the training window.
        seed: of the words.
        step: the one checkpoint that is asked; by default all.
    """

    words: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "words")


@dataclass(frozen=True)
class Landscape(OfRuns):
    """How curved is the loss around the weights, before and after training?

    Attributes:
        runs: folders of runs.
        words: words of the training window.
        directions: random directions along which the loss is bent.
        file: draw the loss of the one run along two of them, into this html, svg or png file.
        seed: of words and directions.
        step: the checkpoint that is asked; by default the last one.
    """

    words: int = 128
    directions: int = 10
    file: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "words", "directions")
        if self.file is not None:
            check_picture(self.file)
            if len(self.runs) > 1:
                raise UserError("--file draws one run: give the folder of a single one")


@dataclass(frozen=True)
class PositionTable(Shows):
    """Is each kind of position bounded, unique, consistent step by step, and readable?

    Attributes:
        runs: folders of runs with learned positions, whose tables are looked at too.
        length: positions of the window, a power of 2; as many beyond it are looked at.
        d_model: width of the stream.
        shift: positions of a step.
        seed: of the tables that are drawn.
        step: the checkpoint of the runs; by default the last one.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]] = ()
    length: int = 128
    d_model: int = 32
    shift: int = 1
    seed: int = 0
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(2, self, "length")
        at_least(4, self, "d_model")
        at_least(1, self, "shift")
        at_least(0, self, "step")
        check_seed(self.seed)
        if self.d_model % 8:
            raise UserError(
                f"--d-model is {self.d_model}: choose a multiple of 8; each of 4 heads needs pairs "
                "of sine and cosine"
            )
