"""The terminal: options in, progress on stderr, answers on stdout, a mistake in one line."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import dropwhile, takewhile
from typing import TYPE_CHECKING, Any, TypeVar

import tyro
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from models.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    from analyses.answers import Progress as Report

T = TypeVar("T")

OUT = Console(highlight=False, soft_wrap=True)
ERR = Console(stderr=True, highlight=False)


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """A bar that takes (done, total, what); it vanishes when done."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=ERR, transient=True, disable=not ERR.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total, what: bar.update(
            task, completed=done, total=total, description=what
        )


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
        table.add_column(str(column), justify="right" if number else "left")
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
        # tyro draws a box with a title; the fault is its first lines of words.
        lines = (line.strip(" │|╭╮╰╯─") for line in said.getvalue().splitlines()[1:])
        words = dropwhile(lambda line: not re.search(r"\w", line), lines)
        fault = " ".join(takewhile(lambda line: re.search(r"\w", line), words))
        raise UserError(f"{fault} (see `lab {command} --help`)") from None


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
