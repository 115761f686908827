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
    """Each job's key and answer, as the answers come in.

    If a worker dies, its job is given to another one; a local worker is replaced.

    Args:
        work: a function of a module, so that other processes find it.
        jobs: the arguments of each call, by key. Workers elsewhere get absolute paths.
        workers: how many processes; with one, this process does the work itself.
        scheduler: the address of a Dask scheduler, whose workers do the work instead.

    Raises:
        UserError: no scheduler answers there, or it went away; a job kills its workers.
    """
    if not jobs or (scheduler is None and min(workers, len(jobs)) == 1):
        yield from ((key, work(*arguments)) for key, arguments in jobs.items())
        return
    from analyses.jobs.cluster import answers  # a second to import; most commands need no process

    yield from answers(work, jobs, workers, scheduler)
