"""What a person sees in the terminal: progress on stderr, answers on stdout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analyses.results import Progress as Report

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
        title=title, title_justify="left", header_style="bold", box=SIMPLE, pad_edge=False
    )
    for column in frame.columns:
        number = pd.api.types.is_numeric_dtype(frame[column])
        table.add_column(str(column), justify="right" if number else "left")
    for row in frame.itertuples(index=False):
        table.add_row(*(cell(value) for value in row))
    return table


def cell(value: Any) -> str:
    """A value in a table's cell; a dash where there is none."""
    if value is None or value is pd.NA or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)
