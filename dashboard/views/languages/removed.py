"""Runs that a reader removed: they are put aside, and can be put back."""

from __future__ import annotations

import os
from pathlib import Path

from dashboard.selection import runs_folder
from models.errors import UserError
from models.runs.files import is_locked
from models.runs.run import find_runs

BIN = ".removed"
"""The folder, below that of all runs, of what was removed. No list of runs looks into it."""


def remove(name: str) -> None:
    """Puts a run aside.

    Raises:
        UserError: a process works on it.
    """
    path = runs_folder() / name
    if is_locked(path):
        raise UserError(f"{name} is being trained: stop it first")
    _move(path, _free(runs_folder() / BIN / name))


def put_back(name: str) -> None:
    """Puts a removed run back.

    Raises:
        UserError: another run has its name now.
    """
    path = runs_folder() / name
    if path.exists():
        raise UserError(f"there is another run named {name}: remove that one first")
    _move(runs_folder() / BIN / name, path)


def removed() -> list[str]:
    """The names of the removed runs."""
    return [path.name for path in find_runs(runs_folder() / BIN)]


def _free(path: Path) -> Path:
    """The path, or the first one with a number that nothing has."""
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name.partition('~')[0]}~{number}")
    return path


def _move(old: Path, new: Path) -> None:
    new.parent.mkdir(exist_ok=True)
    os.replace(old, new)
