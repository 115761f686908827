"""Jobs side by side, in this process, on this machine's cores or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from analyses.jobs.failed import Failed
from models.errors import UserError

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


def side_by_side(
    work: Callable[..., Answer],
    jobs: Mapping[Key, tuple[Any, ...]],
    workers: int,
    scheduler: str | None = None,
) -> Iterator[tuple[Key, Answer]]:
    """Each job's key and answer, as the answers come in.

    If a worker dies, its job is given to another one; a local worker is replaced.

    Args:
        work: a function of a module, so that other processes find it.
        jobs: the arguments of each call, by key. Workers elsewhere get absolute paths.
        workers: number of processes; with one, this process does the work itself.
        scheduler: the address of a Dask scheduler, whose workers do the work instead.

    Raises:
        UserError: no scheduler answers there, or it went away; a job kills its workers.
    """
    for key, answer in _answers(work, jobs, workers, scheduler):
        if isinstance(answer, Failed):
            raise UserError(answer.reason)
        yield key, answer


def collected(
    work: Callable[..., Answer],
    jobs: Mapping[Key, tuple[Any, ...]],
    workers: int,
    scheduler: str | None = None,
) -> Iterator[tuple[Key, Answer | Failed]]:
    """``side_by_side``, in which a job that fails stops no other one.

    It is tried once more after all others. If it fails again, its answer is ``Failed``. A UserError
    is a mistake in what was asked: it ends all, as in ``side_by_side``.
    """
    pending = dict(jobs)
    for last in (False, True):
        failed = {}
        for key, answer in _answers(partial(_caught, work), pending, workers, scheduler):
            if last or not isinstance(answer, Failed):
                yield key, answer
            else:
                failed[key] = pending[key]
        pending = failed


def _caught(work: Callable[..., Answer], *arguments: Any) -> Answer | Failed:
    """The answer of a job, or the reason for having none."""
    try:
        return work(*arguments)
    except UserError:
        raise
    except Exception as error:  # whatever it is, the other jobs go on
        text = " ".join(str(error).split())
        return Failed(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _answers(
    work: Callable[..., Answer],
    jobs: Mapping[Key, tuple[Any, ...]],
    workers: int,
    scheduler: str | None,
) -> Iterator[tuple[Key, Answer | Failed]]:
    """Each job's answer. A job that kills its workers is ``Failed``."""
    if not jobs or (scheduler is None and min(workers, len(jobs)) == 1):
        yield from ((key, work(*arguments)) for key, arguments in jobs.items())
        return
    from analyses.jobs.cluster import answers  # a second to import; most commands need no process

    yield from answers(work, jobs, workers, scheduler)
