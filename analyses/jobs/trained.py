"""The run of a configuration, trained if need be, and never by two processes at the same time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from models.config import TrainConfig
from models.errors import UserError
from models.plain_files import read_bytes
from models.runs.files import locked
from models.runs.folders import RUN_FILE
from models.runs.run import Run
from models.training.loop import train
from models.training.state import saved_step
from models.training.together import train_together
from models.training.trainer import choose_device


def trained(
    path: Path,
    config: TrainConfig,
    corpus: Path | None = None,
    device: str = "auto",
    progress: Callable[[int, float | None], None] = lambda step, value: None,
) -> Run:
    """The finished run of a configuration. A run that was interrupted goes on.

    While another process trains the run, this one waits until that one has finished or died.

    Args:
        corpus: the lines that the run learns from, instead of a language.

    Raises:
        UserError: the folder holds a run of another configuration, or of other lines.
    """
    choose_device(device)  # a device that is missing leaves no folder behind
    with _held(path, config, corpus) as run:
        finish(run, device, progress)
    return run


def trained_together(configs: Mapping[Path, TrainConfig], device: str) -> list[Run]:
    """The finished runs of configurations that differ in the seed alone, trained at once.

    Raises:
        UserError: see ``trained``.
    """
    choose_device(device)
    with ExitStack() as locks:
        # Every process takes the locks in the order of the names, so that two processes that want
        # the same runs never wait for each other.
        runs = [locks.enter_context(_held(path, configs[path])) for path in sorted(configs)]
        begun = set[Path]()

        def noted(run: Run, step: int, value: float | None) -> None:
            if run.path not in begun:
                begun.add(run.path)
                _note_start(run)

        train_together(runs, device, noted)
    return runs


@contextmanager
def _held(path: Path, config: TrainConfig, corpus: Path | None = None) -> Iterator[Run]:
    """The run of a configuration, a new one if there is none; locked, so nobody else trains it."""
    with locked(path):
        run = Run(path) if (path / RUN_FILE).exists() else Run.create(path, config, corpus)
        check_same(run, config, read_bytes(corpus, "check the path") if corpus else None)
        yield run


def check_same(run: Run, config: TrainConfig, lines: bytes | None) -> None:
    """Raises UserError for a run of another configuration, or of other lines."""
    if run.config != config or (lines and lines != run.corpus_bytes()):
        raise UserError(
            f"{run.path} holds a run of other settings or lines: choose another folder with --out"
        )


def finish(
    run: Run,
    device: str = "auto",
    progress: Callable[[int, float | None], None] = lambda step, value: None,
) -> None:
    """Trains a run to its end; nothing happens to a finished one. The caller holds its lock."""
    begun = False

    def noted(step: int, value: float | None) -> None:
        nonlocal begun
        if not begun:  # what cannot be resumed was refused before this
            begun = True
            _note_start(run)
        progress(step, value)

    train(run, device, noted)


def _note_start(run: Run) -> None:
    """Notes in run.json that the training of a run begins or goes on here, unless it has ended.

    ``sessions`` lists them: host, pid, from_step, started (UTC).
    """
    if run.record["status"] != "training":
        return
    session = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "from_step": saved_step(run),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    run.update(sessions=[*run.record.get("sessions", []), session])
