"""The options of influence: what training lines did."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from analyses.options.shared import Asks, Flag, Trains, Works, check_seed
from models.errors import UserError

NAME = "influence"
InfluenceMethod = Literal["dot", "cosine", "fisher", "ek-fac", "tracin"]


@dataclass(frozen=True)
class Influence(Asks, Trains, Works):
    """Which training lines made a run say what it says? It must be trained with --lines.

    Methods that read gradients are scored against trainings that lacked half of the lines, and by
    whether they find known culprits: labels that were turned around, and lines with a planted
    shortcut. The answer is kept in the run. With --word or --suspects no network is trained: the
    lines are listed.

    Attributes:
        run: the run's folder.
        word: list what each line adds to the log odds of the right answer on this word.
        suspects: list the lines whose labels may be wrong, the likeliest first.
        method: of these lists.
        subsets: trainings, each on half of the lines.
        targets: words whose answers are explained; none is a training line.
        culprits: the share of lines that are spoiled, to be found again: labels are turned around,
            or a shortcut is planted.
        seed: of the halves and of the culprits.
    """

    run: tyro.conf.Positional[Path]
    word: str | None = None
    suspects: Flag = False
    method: InfluenceMethod = "ek-fac"
    subsets: int = 100
    targets: int = 40
    culprits: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (("subsets", 10, 10_000), ("targets", 2, 250)):
            if not least <= (value := getattr(self, name)) <= most:
                raise UserError(f"--{name} is {value}: it must lie between {least} and {most:,}")
        if not 0 < self.culprits <= 0.5:
            said = "it must lie above 0 and at most at 0.5"
            raise UserError(f"--culprits is {self.culprits:g}: {said}")
        if self.word is not None and self.suspects:
            raise UserError("--word and --suspects are two lists: choose one")
        if self.suspects and self.method == "cosine":
            raise UserError(
                "--method cosine finds no suspects: that of every line with itself is 1; choose "
                "another one"
            )
        check_seed(self.seed)
