"""The folders of runs: which there are, and the one that a path stands for. Nothing is opened."""

from __future__ import annotations

import os
from pathlib import Path

from models.errors import UserError
from models.plain_files import folders_in

RUN_FILE = "run.json"
"""The record of a run, which tells its folder from others."""


def run_folder(path: Path) -> Path:
    """The folder of a run; a folder that holds a single run stands for that run.

    Raises:
        UserError: there is no run; other runs are named.
    """
    if os.path.lexists(path / RUN_FILE):
        return path
    inside = find_runs(path)
    if len(inside) == 1:
        return inside[0]
    around = [folder for folder in path.parents if (folder / RUN_FILE).exists()][:1]
    runs = around or inside or find_runs(path.parent) or find_runs(Path("runs"))
    cure = f"choose one of {', '.join(map(str, runs[:6]))}"
    raise UserError(f"{path} is not a run: {cure if runs else 'train one with `lab train anbn`'}")


def find_runs(folder: Path) -> list[Path]:
    """The run folders directly inside a folder, by name. One that is half written (".name") is not
    among them, nor one whose name no table or page can show, since it is not UTF-8. One that may
    not be entered is among them, and one whose record is a link to nothing: who opens it is told
    so. Raises UserError where the folder itself may not be read."""
    names = sorted(n for n in folders_in(folder) if not n.startswith(".") and _is_text(n))
    paths = (folder / name for name in names)
    return [p for p in paths if os.path.lexists(p / RUN_FILE) or not os.access(p, os.X_OK)]


def _is_text(name: str) -> bool:
    """Can it be written in UTF-8? A name of other bytes has surrogates for them (PEP 383)."""
    return name == name.encode(errors="ignore").decode()
