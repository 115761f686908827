"""Many runs side by side, each trained if need be: what sweeps, comparisons and others share."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import joblib
import torch
from safetensors import SafetensorError, safe_open
from threadpoolctl import threadpool_limits

from models.config import TrainConfig
from models.errors import UserError
from models.files import locked
from models.runs import RUN_FILE, Run
from models.together import train_together
from models.training import STATE, train

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def one_thread() -> None:
    """A worker has one core for itself: more threads or processes slow all of them down.

    Processes of joblib would also outlive the last task: the worker waits until they idle out.
    joblib and OpenMP keep this per thread: call it in the thread that works.
    """
    torch.set_num_threads(1)
    threadpool_limits(1)
    joblib.parallel_config("sequential")


def trained(
    path: Path,
    config: TrainConfig,
    corpus: Path | None = None,
    device: str = "auto",
    progress: Callable[[int, float | None], None] = lambda step, value: None,
) -> Run:
    """The finished run of a configuration; one that broke off goes on.

    Whoever comes second waits until the first has finished, or died.

    Args:
        corpus: the lines it learns from, instead of a language.

    Raises:
        UserError: the folder holds a run of another configuration, or of other lines.
    """
    with held(path, config, corpus) as run:
        finish(run, device, progress)
    return run


def trained_together(configs: Mapping[Path, TrainConfig], device: str) -> list[Run]:
    """The finished runs of configurations that differ in the seed alone, trained at once.

    Raises:
        UserError: as ``trained``.
    """
    with ExitStack() as locks:
        # In the order of their names, so that no two who want the same runs wait for each other.
        runs = [locks.enter_context(held(path, configs[path])) for path in sorted(configs)]
        for run in runs:
            sit_down(run)
        train_together(runs, device)
    return runs


@contextmanager
def held(path: Path, config: TrainConfig, corpus: Path | None = None) -> Iterator[Run]:
    """The run of a configuration, a new one if there is none, for nobody else to train."""
    with locked(path):
        run = Run(path) if (path / RUN_FILE).exists() else Run.create(path, config, corpus)
        if run.config != config or (corpus and corpus.read_bytes() != run.corpus_bytes()):
            raise UserError(f"{path} was trained otherwise: choose another folder with --out")
        yield run


def finish(
    run: Run,
    device: str = "auto",
    progress: Callable[[int, float | None], None] = lambda step, value: None,
) -> None:
    """Trains a run to its end, for whoever holds its lock; nothing happens to a finished one."""
    sit_down(run)
    train(run, device, progress)


def sit_down(run: Run) -> None:
    """Notes in run.json, unless the run is finished, that its training begins or goes on here.

    ``sittings`` lists them: host, pid, from_step, started (UTC).
    """
    if run.record["status"] == "finished":
        return
    sitting = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "from_step": saved_step(run),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    run.update(sittings=[*run.record.get("sittings", []), sitting])


def saved_step(run: Run) -> int:
    """The step that training goes on from: that of the saved state, or 0."""
    try:
        with safe_open(run.path / STATE, framework="pt") as file:
            return int(json.loads(file.metadata()["about"])["step"])
    except (FileNotFoundError, SafetensorError, KeyError, TypeError, ValueError):
        return 0  # of a damaged state training itself says what is wrong


def side_by_side(
    work: Callable[..., Answer],
    jobs: Mapping[Key, tuple[Any, ...]],
    workers: int,
    scheduler: str | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """The answers as they come in.

    The job of a worker that dies is given to another; a local worker is replaced.

    Args:
        work: a function of a module, so that other processes find it.
        jobs: its arguments, by key. Workers elsewhere are told absolute paths.
        workers: processes; one works here.
        scheduler: the address of a Dask scheduler whose workers do it instead.

    Raises:
        UserError: no scheduler answers there, or it went away; a job that kills its workers.
    """
    if not jobs or (scheduler is None and min(workers, len(jobs)) == 1):
        yield from ((key, work(*arguments)) for key, arguments in jobs.items())
        return
    from analyses.cluster import answers  # a second to import, and most commands need no process

    yield from answers(work, jobs, workers, scheduler)
