"""Many runs side by side, each trained if need be: what comparisons and leaderboards share."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, TypeVar

import joblib
import torch
from threadpoolctl import threadpool_limits

from models.config import TrainConfig
from models.errors import UserError
from models.runs import RUN_FILE, Run
from models.training import train

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def one_thread() -> None:
    """A worker has one core for itself: more threads or processes slow all of them down.

    Processes of joblib would also outlive the last task: the worker waits until they idle out.
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

    Args:
        corpus: the lines it learns from, instead of a language.

    Raises:
        UserError: the folder holds a run of another configuration, or of other lines.
    """
    run = Run(path) if (path / RUN_FILE).exists() else Run.create(path, config, corpus)
    if run.config != config or (corpus and corpus.read_bytes() != run.corpus_bytes()):
        raise UserError(f"{path} was trained otherwise: choose another folder with --out")
    train(run, device, progress)
    return run


def side_by_side(
    work: Callable[..., Answer], jobs: Mapping[Key, tuple[Any, ...]], workers: int
) -> Iterator[tuple[Key, Answer]]:
    """The answers as they come in.

    Args:
        work: a function of a module, so that other processes find it.
        jobs: its arguments, by key.
        workers: processes; one works here.
    """
    if workers == 1:
        yield from ((key, work(*arguments)) for key, arguments in jobs.items())
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, one_thread) as pool:
        futures = {pool.submit(work, *arguments): key for key, arguments in jobs.items()}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
