"""Options that several commands have. Each is defined once, so it means the same everywhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import FlagCreatePairsOff

from models.checks import MOST_SYMBOLS, Number, check_bounds
from models.config import MOST_SEED, Device
from models.errors import UserError, option_of, told
from models.languages import language

Flag = Annotated[bool, FlagCreatePairsOff]
"""Off unless it is given; there is no --no-... of it."""


MOST: Mapping[str, Number] = {
    "all_words": MOST_SYMBOLS,
    "count": 100_000,
    "directions": 1000,
    "d_model": 4096,
    "donors": 1000,
    "draws": 10_000,
    "first_seed": MOST_SEED - 10_000,
    "keys": 1000,
    "least": 1,
    "length": 1000,
    "limit": 86_400,
    "max_n": MOST_SYMBOLS,
    "max_states": 10_000,
    "members": 100_000,
    "minutes": 10_000,
    "n": MOST_SYMBOLS,
    "networks": 100,
    "pairs": 100_000,
    "parent_steps": 10**9,
    "port": 65_535,
    "queries": 10**7,
    "rank": 1000,
    "samples": 10**6,
    "seeds": 10_000,
    "shift": 1000,
    "step": 10**9,
    "steps": 10**9,
    "width": 1e6,
    "words": 100_000,
    "workers": 10_000,
}
"""The largest value of every option that is a number. Beyond it the memory of a machine, or
everybody's patience, ends before the work does."""


def at_least(least: Number, options: object, *names: str) -> None:
    """Raises UserError if an option is smaller than this, larger than ``MOST``, or no number; one
    that is not given passes."""
    for name in names:
        value = getattr(options, name)
        if value is not None:
            check_bounds(option_of(name), value, least, MOST[name])


def check_seed(seed: int) -> None:
    """Raises UserError for a seed that not every source of random numbers takes."""
    if not 0 <= seed <= MOST_SEED:
        raise UserError(f"--seed is {seed}: it must lie between 0 and {MOST_SEED}")


def check_languages(names: Sequence[str]) -> None:
    """Raises UserError for an unknown language, and for one that is named twice."""
    for index, name in enumerate(names):
        language(name)
        if name in names[:index]:
            raise UserError(f"{name} is named twice: drop one")


PICTURES = {
    "html": (b"<!doctype html", b"<html"),
    "svg": (b"<svg", b"<?xml"),
    "png": (b"\x89png",),
}
"""The kinds of pictures by the ending of a file's name, and how such files begin."""


def check_picture(file: Path) -> None:
    """Raises UserError for a file that is to be no picture, or that may not be replaced by one."""
    if file.suffix.removeprefix(".").lower() not in PICTURES:
        raise UserError(f"{file} is no picture: end its name in .{', .'.join(PICTURES)}")
    check_replaced(file)


def check_replaced(file: Path) -> None:
    """Raises UserError if a file is there that is not of the kind that its ending says: only a
    picture or a page is replaced by a new one."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UserError(f"{file} is no plain file: choose another name")
        with file.open("rb") as content:
            begins = content.read(200).lstrip().lower()
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{file} cannot be read ({told(error)}): choose another name") from None
    if begins and not begins.startswith(PICTURES[file.suffix.removeprefix(".").lower()]):
        raise UserError(f"{file} holds something else: choose another name, or remove it")


class Checked:
    """Options that check their values when they are built.

    A command may combine several sets of options: each check calls the next.
    """

    def __post_init__(self) -> None:
        """Raises UserError for a bad value."""


@dataclass(frozen=True, kw_only=True)
class Shows(Checked):
    """Options of a command that prints a table.

    Attributes:
        json: print the answer as JSON.
        csv: print the table as CSV.
    """

    json: Flag = False
    csv: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.json and self.csv:
            raise UserError("--json and --csv exclude each other: choose one")


@dataclass(frozen=True, kw_only=True)
class Asks(Shows):
    """Options of a command whose answer is kept in the run.

    Attributes:
        again: answer afresh, even if the run keeps the same answer.
        step: ask the run as it was at this training step; by default at its last checkpoint.
    """

    again: Flag = False
    step: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(0, self, "step")


@dataclass(frozen=True, kw_only=True)
class Trains(Checked):
    """Options of a command that trains networks.

    Attributes:
        device: where the networks are trained; auto is the GPU if there is one.
    """

    device: Device = "auto"


@dataclass(frozen=True, kw_only=True)
class Works(Checked):
    """Options of a command that does many things side by side.

    Attributes:
        workers: the number of processes that work side by side on this machine.
        scheduler: the address of a Dask scheduler; its workers do the work instead. They need this
            folder under the same name.
    """

    workers: int = field(default_factory=lambda: os.cpu_count() or 1)
    scheduler: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, self, "workers")
