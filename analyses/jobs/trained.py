"""A run of a configuration, trained if need be, and by nobody else at the same time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from models.config import TrainConfig
from models.errors import UserError
from models.runs.files import locked
from models.runs.run import RUN_FILE, Run
from models.training.loop import train
from models.training.state import saved_step
from models.training.together import train_together


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
        # Everybody takes the locks in the order of the names: two who want the same runs never wait
        # for each other.
        runs = [locks.enter_context(held(path, configs[path])) for path in sorted(configs)]
        for run in runs:
            note_start(run)
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
    note_start(run)
    train(run, device, progress)


def note_start(run: Run) -> None:
    """Notes in run.json, unless the run is finished, that its training begins or goes on here.

    ``sessions`` lists them: host, pid, from_step, started (UTC).
    """
    if run.record["status"] == "finished":
        return
    session = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "from_step": saved_step(run),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    run.update(sessions=[*run.record.get("sessions", []), session])
