"""The options of planted networks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import tyro

from analyses.options.lines import Study
from analyses.options.shared import Shows, check_seed
from models.errors import UserError, unknown
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
    seed: int = 0
    out: Path = Path("runs")

    def __post_init__(self) -> None:
        Dials.__post_init__(self)
        Shows.__post_init__(self)
        check_seed(self.seed)
        if self.program in get_args(Study):
            raise UserError(
                f"{self.program} is a study of rules in lines: write `lab recover {self.program}`"
            )
        if self.program and self.program not in BOUNDED:
            raise unknown("program", self.program, BOUNDED)
