"""Runs and corpora that a reader removed: they are put aside, and can be put back."""

from __future__ import annotations

import os
from pathlib import Path

import streamlit as st

from dashboard.markup import text
from dashboard.selection import runs_folder
from models.errors import UserError
from models.runs.files import is_locked

BIN, RUNS = ".removed", "runs"
"""The folder, below that of all runs, of what was removed, and its folder of runs. No list of runs
looks into it."""


def remove(name: str, folder: str = "") -> None:
    """Puts a run aside, or what has this name in a folder beside the runs.

    Raises:
        UserError: a process works on it.
    """
    path = runs_folder() / folder / name
    if is_locked(path):
        raise UserError(f"{name} is being trained: stop it first")
    _move(path, _free(_bin(folder) / name))


def _put_back(name: str, folder: str = "") -> None:
    """Puts back what was removed.

    Raises:
        UserError: something else has its name now.
    """
    path = runs_folder() / folder / name
    if path.exists():
        raise UserError(f"there is another one named {name}: remove that one first")
    _move(_bin(folder) / name, path)


def _removed(folder: str = "") -> list[str]:
    """The names of what was removed."""
    return sorted(path.name for path in _bin(folder).glob("*") if path.is_dir())


def put_aside(folder: str = "") -> None:
    """All that was removed, each with a button that puts it back."""
    if not (names := _removed(folder)):
        return
    with st.expander(f"{len(names):d} removed"):
        for name in names:
            left, right = st.columns([4, 1])
            left.markdown(text(name))
            if right.button("Put back", key=f"back {folder} {name}"):
                _put_back(name, folder)
                st.rerun()


def _bin(folder: str) -> Path:
    return runs_folder() / BIN / (folder or RUNS)


def _free(path: Path) -> Path:
    """The path, or the first one with a number that nothing has."""
    number = 1
    while path.exists():
        number += 1
        path = path.with_name(f"{path.name.partition('~')[0]}~{number}")
    return path


def _move(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    os.replace(old, new)
