"""The terminal: options in, progress on stderr, answers on stdout, a mistake in one line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import make_dataclass
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analyses.options.shared import Asks, Shows
from models.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from analyses.answers import Progress as Report

T = TypeVar("T")

WIDE = 160
"""Columns where there is no terminal, as in a pipe: a table is not cut to 80."""
OUT = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else WIDE)
ERR = Console(stderr=True, highlight=False)


EVERY = 5.0
"""Seconds between two lines of progress where there is no terminal."""


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar that takes (done, total, what); it vanishes when done.

    Without a terminal, as in a log file, it is a line every five seconds.
    """
    if not ERR.is_terminal:
        yield progress_lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERR, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )


def progress_lines() -> Report:
    """Prints (done, total, what) to stderr, at most one line every five seconds."""
    told = time.monotonic()

    def report(done: float, total: float, what: str) -> None:
        nonlocal told
        if time.monotonic() - told >= EVERY:
            told = time.monotonic()
            print(f"{what}: {done:g} of {total:g}", file=sys.stderr, flush=True)

    return report


def shown(how: Shows, table: pd.DataFrame, content: Mapping[str, Any] | None = None) -> bool:
    """Prints the answer as JSON or CSV if that was asked for, and returns whether it was.

    Args:
        table: what CSV shows.
        content: what JSON shows; without it, the rows of the table.
    """
    if how.csv:
        print(table.to_csv(index=False), end="")
    elif how.json:
        rows = json.loads(table.to_json(orient="records", force_ascii=False))
        print(json.dumps(rows if content is None else content, ensure_ascii=False))
    return how.json or how.csv


def table_of(frame: pd.DataFrame, title: str | None = None) -> Table:
    """A DataFrame as a table for the terminal; numbers to three digits, missing ones as a dash."""
    table = Table(
        title=title,
        title_justify="left",
        header_style="bold",
        box=SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    for column in frame.columns:
        number = frame[column].dtype.kind in "biuf"
        table.add_column(str(column), justify="right" if number else "left", overflow="fold")
    for row in frame.itertuples(index=False):
        table.add_row(*(cell(value) for value in row))
    return table


def cell(value: Any) -> str:
    """A value in a table's cell; a dash where there is none."""
    import pandas as pd  # half a second, and help needs no table

    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def parse(kind: type[T], args: Sequence[str], command: str, default: T | None = None) -> T:
    """The arguments as a dataclass; a mistake becomes one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            start = tyro.MISSING_NONPROP if default is None else default
            return tyro.cli(kind, args=list(args), prog=f"lab {command}", default=start)
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UserError(f"{_fault(said.getvalue())} (see `lab {command} --help`)") from None


def _fault(said: str) -> str:
    """What tyro complains of, in one line, with the option that was probably meant.

    tyro draws a box with a title. The fault is its first lines of words.
    """
    lines = [line.strip(" │|╭╮╰╯─") for line in said.splitlines()[1:]]
    words = dropwhile(lambda line: not re.search(r"\w", line), lines)
    fault = " ".join(takewhile(lambda line: re.search(r"\w", line), words))
    if "Perhaps you meant:" not in lines:
        return fault
    near = lines[lines.index("Perhaps you meant:") + 1].split()[0]
    return f"{fault}: did you mean {near}?"


def parse_asked(kind: type[T], args: Sequence[str], command: str) -> tuple[T, Asks]:
    """The options of a question, and what every question takes: --again, --json, --csv."""
    asked = make_dataclass(
        "Asked",
        [
            ("options", Annotated[kind, tyro.conf.arg(name="")]),
            ("how", Annotated[Asks, tyro.conf.arg(name="")]),
        ],
    )
    asked.__doc__ = kind.__doc__
    found: Any = parse(asked, args, command)
    return found.options, found.how


def option_values(kind: type[T], default: T | None = None) -> dict[str, list[str]]:
    """Every option of a command, as it is written ("--max-n"), with its values if help lists them.

    Args:
        default: as of ``parse``.
    """
    said = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        parse(kind, ["--help"], "", default)
    listed = r"^\W*(?:-h, )?(--[a-z][\w.-]*(?:, --[\w.-]+)*)(?: \{([\w,-]+)\}(?!\|))?"
    found: list[tuple[str, str]] = re.findall(listed, said.getvalue(), flags=re.MULTILINE)
    return {name: values.split(",") for names, values in found for name in names.split(", ")}


def exit_status(action: Callable[[], None]) -> int:
    """Does it; a user's mistake is one line on stderr and exit status 2."""
    try:
        action()
    except UserError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("lab: stopped; what is finished is kept", file=sys.stderr)
        return 130
    return 0
