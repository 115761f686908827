"""Tables of all runs of a folder: computed once for all tabs, until a file changes."""

from __future__ import annotations

import hashlib
import os
from glob import escape, glob
from pathlib import Path

import pandas as pd
import streamlit as st

from analyses.studies.between import between
from analyses.studies.listing import runs_of
from analyses.studies.planned import compared
from analyses.studies.seeds import comparable, means, siblings, two_kinds
from models.runs.files import is_locked
from models.runs.folders import RUN_FILE, find_runs
from models.runs.run import CORPUS, METRICS, TOKENS, Run


def listed(folder: Path) -> pd.DataFrame:
    """The table of ``runs_of``."""
    table = _listed(folder, _state_of(folder, "accuracy"))
    # No file changes when the process that trains a run is killed.
    for index in table.index[table["status"].isin(["training", "interrupted"])]:
        at_work = is_locked(folder / str(table.loc[index, "run"]))
        table.loc[index, "status"] = "training" if at_work else "interrupted"
    return table


def over_siblings(run: Run, name: str) -> tuple[int, int, pd.DataFrame, pd.DataFrame]:
    """A question over the seeds of a run.

    Returns:
        The number of runs that differ from it only in the seed, itself among them; the number of
        these that have an answer to compare; the table of ``means``; and that of ``compared``,
        empty for one answer.
    """
    return _over_siblings(run.path, run.seen_at, name, _state_of(run.path.parent, name))


def compared_kinds(first: Path, second: Path, name: str) -> tuple[pd.DataFrame, str, int]:
    """What ``between`` says of the seeds of two runs."""
    return _compared_kinds(first, second, name, _state_of(first.parent, name))


@st.cache_data(max_entries=64, show_spinner="Comparing the seeds ...")
def _compared_kinds(
    first: Path, second: Path, name: str, state: str
) -> tuple[pd.DataFrame, str, int]:
    del state
    return between(*two_kinds(first, second), name)


@st.cache_data(max_entries=4, show_spinner="Reading the runs ...")
def _listed(folder: Path, state: str) -> pd.DataFrame:
    del state  # a part of the key alone
    return runs_of(folder)


@st.cache_data(max_entries=64, show_spinner="Comparing the seeds ...")
def _over_siblings(
    path: Path, seen_at: int | None, name: str, state: str
) -> tuple[int, int, pd.DataFrame, pd.DataFrame]:
    del state
    runs = siblings(Run(path, seen_at))
    if len(runs) < 2:
        return len(runs), 0, pd.DataFrame(), pd.DataFrame()
    results, _ = comparable(runs, name)
    tests = compared(results) if len(results) > 1 else pd.DataFrame()
    return len(runs), len(results), means(results), tests


def _state_of(folder: Path, name: str) -> str:
    """A hash that changes when a run comes, goes or trains on, or its answers to a question change.

    It is over the paths, times and sizes of files: none is read.
    """
    digest = hashlib.sha256()
    parts = (RUN_FILE, METRICS, CORPUS, TOKENS, "checkpoints", "results")
    for run in map(str, find_runs(folder)):
        answers = sorted(glob(f"{escape(run)}/results/{name}-*/*"))
        for path in (*(f"{run}/{part}" for part in parts), *answers):
            try:
                stat = os.stat(path)
            except OSError:  # there is none, or it has just gone
                continue
            digest.update(f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}\0".encode())
    return digest.hexdigest()
