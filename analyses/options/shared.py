"""Options that several commands have. Each is defined once, so it means the same everywhere."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from struct import pack
from typing import Annotated

from annotated_types import Interval
from tyro.conf import FlagCreatePairsOff

from models.checks import check_fields
from models.config import MOST_SEED, Device
from models.errors import UserError, option_of, told
from models.languages import language

Flag = Annotated[bool, FlagCreatePairsOff]
"""Off unless it is given; there is no --no-... of it."""


def check_languages(names: Sequence[str]) -> None:
    """Raises UserError for an unknown language, and for one that is named twice."""
    for index, name in enumerate(names):
        language(name)
        if name in names[:index]:
            raise UserError(f"{name} is named twice: drop one")


PICTURES = ("html", "svg", "png")
"""The kinds of pictures and pages, by the ending of a file's name."""
MARK = b"Structure Lab"
"""The name in the mark of every picture and page of the lab."""
COMMENT, CHUNK = b"<!-- " + MARK + b" -->", b"tEXtSoftware\0" + MARK
"""The marks near the beginning: of HTML and SVG, and of PNG. Nobody writes them by hand."""


def marked(content: bytes, suffix: str, origin: str = "") -> bytes:
    """A picture or a page with the lab's mark, where no reader of it shows it.

    Args:
        origin: what a picture is of, in words: the metadata of an SVG, the description of a PNG.
    """
    if suffix == "png":  # after the header, chunks of text: their length, name, text and checksum
        chunks = [CHUNK] + [b"iTXtDescription\0\0\0\0\0" + origin.encode()] * bool(origin)
        parts = [pack(">I", len(c) - 4) + c + pack(">I", zlib.crc32(c)) for c in chunks]
        return content[:33] + b"".join(parts) + content[33:]
    first, tag, rest = content.partition(b">")
    known = f"<metadata>{escape(origin)}</metadata>".encode() if origin and suffix == "svg" else b""
    return first + tag + COMMENT + known + rest


def check_replaced(file: Path) -> None:
    """Raises UserError if a file is there that the lab has not made: only a picture or a page of
    its own is replaced by a new one."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise UserError(f"{file} is no plain file: choose another name")
        with file.open("rb") as content:
            begins = content.read(2000)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{file} cannot be read ({told(error)}): choose another name") from None
    if begins and COMMENT not in begins and CHUNK not in begins:
        raise UserError(f"{file} is not of the lab: choose another name, or remove it")


Seed = Annotated[int, Interval(ge=0, le=MOST_SEED)]
"""A seed that every source of random numbers takes."""


NO_PATH = re.compile(r"~|[A-Za-z][\w.+-]+:(?=/)")
"""Beginnings of what is no path: a home that no shell has opened, and an address."""


class Checked:
    """Options that check their values when they are built.

    The bounds of a number stand on its field. A command may combine several sets of options: each
    check calls the next.
    """

    def __post_init__(self) -> None:
        """Raises UserError for a bad value."""
        check_fields(self, option_of)
        for name, value in vars(self).items():
            if isinstance(value, Path) and (fault := NO_PATH.match(str(value))):
                raise UserError(
                    f"{name} is {value}: {fault[0]} begins no path, write one of this machine in "
                    "full"
                )


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
    step: Annotated[int, Interval(ge=0, le=1_000_000_000)] | None = None


@dataclass(frozen=True, kw_only=True)
class Trains(Checked):
    """Options of a command that trains networks.

    Attributes:
        device: where the networks are trained; auto is the GPU if there is one.
    """

    device: Device = "auto"


@dataclass(frozen=True, kw_only=True)
class Columns(Checked):
    """Options of a command that reads a file of lines, where its shape does not tell what is where.

    Attributes:
        label: the column of labels: its name in the first line, or its number (from 1) where the
            file names none.
        text: the column of texts.
        letters: take each letter of a text for a symbol.
    """

    label: str | None = None
    text: str | None = None
    letters: Flag = False

    def columns(self, cells: Sequence[str]) -> list[str]:
        """The columns that hold these cells; none where none is given.

        Raises:
            UserError: only some of the columns are given, or others.
        """
        names = [name for name in ("label", "text", "source", "target") if hasattr(self, name)]
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        if given and {*given} != {*cells}:
            raise UserError(
                f"what is learned here has the columns --{' and --'.join(cells)}: name these and "
                f"no others, or none (named: --{', --'.join(given)})"
            )
        return [given[name] for name in cells if given]


@dataclass(frozen=True, kw_only=True)
class Works(Checked):
    """Options of a command that does many things side by side.

    Attributes:
        workers: the number of processes that work side by side on this machine.
        scheduler: the address of a Dask scheduler; its workers do the work instead. They need this
            folder under the same name.
    """

    workers: Annotated[int, Interval(ge=1, le=10_000)] = field(
        default_factory=lambda: os.cpu_count() or 1
    )
    scheduler: str | None = None
