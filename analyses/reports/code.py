"""The code that gives an answer again: in Python, and as a command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analyses.answers import chosen_options
from models.errors import lab
from models.runs.run import Run

PYTHON = """from pathlib import Path

from analyses.answers import answer, question
from models.runs.run import Run

asked = question({name!r})
result, _ = answer(Run(Path({run!r}){step}), {name!r}, asked.options({options}))
result.table  # a tidy DataFrame
asked.chart(result)  # the picture
"""


def python_of(run: Run, name: str, arguments: Mapping[str, Any]) -> str:
    """The lines of Python that ask a question again and draw its picture.

    Args:
        arguments: the options that it was asked with, as JSON-able values.
    """
    chosen = chosen_options(name, arguments).items()
    options = ", ".join(f"{key}={_frozen(value)!r}" for key, value in chosen)
    step = "" if run.seen_at is None else f", {run.seen_at}"
    return PYTHON.format(name=name, run=str(run.path), step=step, options=options)


def command_of(run: Run, name: str, arguments: Mapping[str, Any]) -> str:
    """The command that asks a question again."""
    return lab("analyse", run.path, name, **chosen_options(name, arguments), step=run.seen_at)


def _frozen(value: Any) -> Any:
    """A JSON value as the options hold it: its lists become tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
