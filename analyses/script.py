"""Runs any question as a script: `python -m analyses.questions.patching RUN [OPTIONS]`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.markup import escape

from analyses.answers import Question, answer, question
from analyses.console import OUT, exit_status, parse, progress_bar
from models.runs.run import Run


def script(asked: Question[Any]) -> int:
    """The same as `lab analyse RUN NAME [OPTIONS]`. Returns the exit status."""
    return exit_status(lambda: from_arguments(asked.name, sys.argv[1:] or ["--help"]))


def from_arguments(name: str, args: Sequence[str]) -> None:
    """Asks the run that the arguments name.

    Args:
        args: the run's folder and the question's options; --again answers afresh.
    """
    folder, *rest = args
    again = "--again" in rest
    rest = [word for word in rest if word != "--again"]
    options = parse(question(name).options, rest, f"analyse {folder} {name}")
    ask(Run(Path(folder)), name, options, again)


def ask(run: Run, name: str, options: Any, again: bool) -> None:
    """Answers one question and says where the table and the figure lie."""
    with progress_bar(name) as report:
        found, known = answer(run, name, options, report, again)
    note = " (kept from before; --again answers afresh)" if known else ""
    OUT.print(f"[bold]{name}[/bold]: {escape(found.sentence)}{note}")
    OUT.print(f"  {run.results / name}.parquet, {run.figures / name}.html", style="dim")
