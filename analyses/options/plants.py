"""The options of planted networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import tyro
from annotated_types import Interval

from analyses.options.lines import Study
from analyses.options.shared import Seed, Shows, Works
from models.errors import UserError, lab, unknown
from models.languages.grammars.bounded import BOUNDED
from models.plants.settings import Dials


@dataclass(frozen=True)
class Plant(Dials, Shows):
    """Make a network whose wiring is known: a program, compiled, and right on all its words.

    The run's folder is OUT/PROGRAM-plant-...-sSEED. It holds plan.json: which part computes what,
    along which directions of the stream, and which parts are idle. Without a PROGRAM, all programs
    are listed.

    Attributes:
        program: what the network computes, by the name of its language.
        seed: of everything that is drawn: another seed is another network.
        out: the folder of all runs.
    """

    program: tyro.conf.Positional[str] = ""
    seed: Seed = 0
    out: Path = Path("runs")

    def __post_init__(self) -> None:
        Shows.__post_init__(self)
        if self.program in get_args(Study):
            raise UserError(
                f"{self.program} is a study of rules in lines: "
                f"write `{lab('recover', self.program)}`"
            )
        if self.program and self.program not in BOUNDED:
            raise unknown("program", self.program, BOUNDED)


SETTINGS: Mapping[str, Dials] = {
    "open": Dials(rotate=True),
    "decoys": Dials(rotate=True, decoys=2, cancelling=True),
    "either": Dials(rotate=True, copies="either"),
    "both": Dials(rotate=True, copies="both"),
    "superposed": Dials(rotate=True, superposed=0.3),
}
"""The hiding of the networks on which lenses are scored. The stream is turned in all of them."""


LEARNED = ("first", "anbn", "lt1", "an")
"""Languages over two symbols that a small network learns. A network that is right about one of them
is not by that right about the one before. "last" is none: a network of random weights may be right
about it by luck, since all depends on the symbol at which the verdict is read."""
TAUGHT = ("dieren-gaps", "dyck2")
"""The languages of the trained networks of which is asked what their lines did."""


@dataclass(frozen=True)
class Score(Shows, Works):
    """Score a lens on networks whose wiring is known; without a LENS, all of the lab's own.

    LENS is a Python file with a function for one or more of the questions "positions", "parts",
    "edges", "variable", "rule" and "lines". It runs in a process of its own, where no truth is in
    reach, but with all rights that you have: it may read, change and send your files. Score only a
    file that you have read. What is scored is kept in OUT: a scoring that was interrupted goes on.

    Attributes:
        lens: the file.
        programs: what the planted networks compute; all programs if none is named.
        settings: what hides them: "open" nothing but a rotation of the stream, "decoys" heads that
            do nothing, "either" two copies of which each is enough, "both" two copies of which both
            are needed, "superposed" fewer dimensions than values.
        seeds: how many networks are drawn for each program and setting, and for each language.
        first_seed: of the first of them. With another one nobody has seen the networks.
        limit: seconds within which a lens must answer a question. Its file has 120 to start.
        out: the folder of all runs.
        taught: languages of the trained networks of which "lines" is asked.
        null: ask the questions of the lab, in place of lenses, and count what they claim: of five
            kinds of networks in which nothing is to be found of their language, and of networks
            that are right. Other packages' questions are among them.
        questions: the questions that are asked so; those of `lab analyse RUN all` if none is named.
    """

    lens: tyro.conf.Positional[Path | None] = None
    programs: tuple[str, ...] = tuple(BOUNDED)
    settings: tuple[str, ...] = tuple(SETTINGS)
    seeds: Annotated[int, Interval(ge=1, le=10_000)] = 2
    first_seed: Annotated[int, Interval(ge=0, le=4_294_957_295)] = 0
    limit: Annotated[float, Interval(ge=1, le=86_400)] = 60.0
    out: Path = Path("runs")
    taught: tuple[str, ...] = TAUGHT
    null: bool = False
    questions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.null and self.lens:
            raise UserError(
                f"--null asks questions, and {self.lens} holds lenses: leave one of the two out, "
                "or register a question, as CONTRIBUTING.md says"
            )
        if self.questions and not self.null:
            raise UserError("--questions are those of --null: add it")
        for name, values, allowed in (
            ("program", self.programs, BOUNDED),
            ("setting", self.settings, SETTINGS),
            ("trained network", self.taught, TAUGHT),
        ):
            for value in values:
                if value not in allowed:
                    raise unknown(name, value, allowed)
