"""Jobs side by side, in this process, on this machine's cores or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, TypeVar

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


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
    from analyses.jobs.cluster import answers  # a second to import; most commands need no process

    yield from answers(work, jobs, workers, scheduler)
