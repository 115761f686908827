"""Studies of many runs: the options of a leaderboard and of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_types import Interval
from tyro.conf import Positional, arg

from analyses.options.shared import (
    PICTURES,
    Flag,
    Shows,
    Trains,
    Works,
    check_languages,
    check_replaced,
)
from analyses.options.shipped import find, shipped
from models.checks import check_bounds
from models.errors import UserError, unknown
from models.families import FAMILIES

CLEAN, PLANTED = "dieren-gaps", "dieren_muis"
"""The same language; the training lines of the second carry a shortcut."""
Size = Literal["parameters", "words", "compute"]
FewTarget = Literal["dieren-gaps", "planted", "nested"]


@dataclass(frozen=True)
class Leaderboard(Shows, Trains, Works):
    """Train several seeds, explain their verdicts with every method, and score the methods.

    Attributes:
        languages: the languages whose models are explained.
        recipe: how the Transformers are built: plain; or counting, for languages that have this
            recipe. It fixes heads by construction, and the table says so.
        architectures: the kinds of networks. LSTM and CNN stand beside the Transformer to tell
            whether something is so because of Transformers.
        seeds: the number of seeds, from 0 on.
        words: the number of words explained per seed. Each seed gets other words.
        steps: the training steps of every run, instead of its recipe's number.
        out: the folder of the runs, the table and the report.
    """

    languages: Annotated[Positional[tuple[str, ...]], arg(metavar="[LANGUAGE ...]")] = (
        *("anbncn", "anbn", CLEAN, PLANTED),
    )
    recipe: str = "plain"
    architectures: tuple[str, ...] = ("transformer", "lstm", "cnn")
    seeds: Annotated[int, Interval(ge=1, le=10_000)] = 5
    words: Annotated[int, Interval(ge=1, le=100_000)] = 100
    steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] | None = None
    out: Path = Path("runs/leaderboard")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_languages(self.languages)
        for index, name in enumerate(self.architectures):
            if name not in FAMILIES:
                raise unknown("architecture", name, FAMILIES)
            if name in self.architectures[:index]:
                raise UserError(f"{name} is named twice: drop one")


@dataclass(frozen=True)
class Sweep(Shows, Trains, Works):
    """Train every run of a sweep, judge all alike, and tabulate.

    Attributes:
        languages: the languages, instead of those in the file.
        seeds: the number of seeds, from 0 on, instead of the file's number.
        steps: the training steps of every run, instead of the file's number.
        out: the folder of the runs and of the table; runs/NAME by default.
        dry_run: train nothing, and say what it would take: runs, parameters, hours.
    """

    file: Annotated[
        Positional[str],
        arg(metavar="FILE", help=f"a TOML file, or a sweep of the lab: {', '.join(shipped())}"),
    ]
    languages: tuple[str, ...] = ()
    seeds: Annotated[int, Interval(ge=1, le=10_000)] | None = None
    steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] | None = None
    out: Path | None = None
    dry_run: Flag = False

    @property
    def folder(self) -> Path:
        return self.out or Path("runs") / find(self.file).stem


@dataclass(frozen=True)
class Scaling(Shows):
    """How does the loss of a sweep fall with size: by a power law, by a rival law, by none?

    Attributes:
        folder: of a sweep of language models whose file has measures = ["loss"].
        by: what is counted: learned parameters, different words in training, or floating-point
            operations of training.
        file: draw it, into this html, svg or png file.
    """

    folder: Positional[Path]
    by: Size = "parameters"
    file: Path | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.file is not None:
            _check_picture(self.file)


def _check_picture(file: Path) -> None:
    """Raises UserError for a file that is to be no picture, or that may not be replaced by one."""
    if file.suffix.removeprefix(".").lower() not in PICTURES:
        raise UserError(f"{file} is no picture: end its name in .{', .'.join(PICTURES)}")
    check_replaced(file)


@dataclass(frozen=True)
class FewLabels(Shows, Trains, Works):
    """How many labelled lines does a network need that has read unlabelled words before?

    A language model is fine-tuned to give verdicts, on few lines and in five ways. Beside each way
    stands the same way from weights that have read nothing.

    Attributes:
        targets: dieren-gaps (the weaker rule of the Dutch lines), planted (a rule over eight
            letters, another one for each seed), nested (Dutch sentences and such that break
            agreement).
        lines: how many lines are labelled.
        seeds: the number of seeds, from 0 on. One more chooses the learning rates.
        steps: of each fine-tuning.
        parent_steps: of the language model.
        dimensions: let all weights move along so many random directions, too. The fewest that are
            enough are the intrinsic dimension.
        out: the folder of the parents and of the table.
    """

    targets: Annotated[Positional[tuple[FewTarget, ...]], arg(metavar="[TARGET ...]")] = (
        *("dieren-gaps", "planted", "nested"),
    )
    lines: tuple[int, ...] = (10, 100, 1000, 5000)
    seeds: Annotated[int, Interval(ge=1, le=10_000)] = 5
    steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] = 200
    parent_steps: Annotated[int, Interval(ge=1, le=1_000_000_000)] = 1000
    dimensions: tuple[int, ...] = ()
    out: Path = Path("runs/few-labels")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("targets", "lines"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise UserError(f"--{name} is empty or names one twice: name each once")
        if len(set(self.dimensions)) < len(self.dimensions):
            raise UserError("--dimensions names one twice: name each once")
        for name in ("lines", "dimensions"):
            for number in getattr(self, name):
                check_bounds(f"--{name}", number, 1, 100_000)
