"""Jobs on the workers of a Dask scheduler: processes of this machine, or of many."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import islice
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar
from uuid import uuid4

import dask
from distributed import Client, Future, LocalCluster, Nanny, Security, as_completed
from distributed.client import FutureCancelledError
from distributed.comm.core import connect
from distributed.scheduler import KilledWorker
from distributed.utils import get_mp_context

from analyses.console import ERR
from analyses.jobs.failed import Failed
from analyses.jobs.limits import keep_memory, one_thread
from models.errors import UserError
from models.runs.files import is_locked, locked

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

AT_ONCE = 1000
"""Jobs that a scheduler has at a time. No cluster of ours has more workers."""

PATIENCE = 10
"""Seconds to wait for a scheduler's answer."""

STARTING = threading.Lock()
OURS = ("analyses", "interp", "models")
FORKED = sys.platform == "linux"  # elsewhere what was loaded before a fork may break after it
LOCAL: Mapping[str, Any] = {
    "distributed.worker.multiprocessing-method": "forkserver" if FORKED else "spawn",
    "distributed.scheduler.allowed-failures": 2,
    "distributed.worker.profile.enabled": False,
    "distributed.scheduler.worker-saturation": 1.0,  # no job waits at a busy worker
}


def answers(
    work: Callable[..., Answer],
    jobs: Mapping[Key, tuple[Any, ...]],
    workers: int,
    scheduler: str | None,
) -> Iterator[tuple[Key, Answer | Failed]]:
    """The answers as they come in; see ``workers.side_by_side``. A job that kills its workers is
    ``Failed``."""
    with _connected(min(workers, len(jobs)), scheduler) as client:
        # A worker of this machine gets a job only when it is free: if it had several at once, Dask
        # might leave the longest for the end. Workers elsewhere come and go, and only the scheduler
        # knows how many there are, so it gets many jobs at once; all of a large sweep would fill
        # its memory.
        waiting = iter(jobs)
        futures = dict[Future[Answer], Key]()
        done = as_completed(loop=client.loop)

        def give(count: int) -> None:
            for key in islice(waiting, count):
                future = client.submit(_alone, work, *map(_absolute, jobs[key]), pure=False)
                futures[future] = key
                done.add(future)

        give(workers if scheduler is None else AT_ONCE)
        for future in done:
            give(1)
            key = futures.pop(future)
            answer: Answer | Failed
            try:
                answer = future.result()
            except KilledWorker as error:
                answer = Failed(
                    f"{_job_name(key)} killed the {error.allowed_failures + 1} workers that tried "
                    "it: give them more memory, or ask for less"
                )
            except FutureCancelledError:
                raise UserError(
                    f"lost the scheduler {scheduler or ''} while it had {_job_name(key)}: "
                    "start again, what is finished is kept"
                ) from None
            yield key, answer


def _job_name(key: Hashable) -> str:
    """The name of a job in an error."""
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _alone(work: Callable[..., Answer], *arguments: Any) -> Answer:
    """The work of a worker's thread. It sets the limits itself, because anybody may have started
    the worker."""
    one_thread()
    keep_memory()
    return work(*arguments)


def _absolute(argument: Any) -> Any:
    """The same argument with an absolute path: a worker elsewhere was started in another folder."""
    return argument.absolute() if isinstance(argument, Path) else argument


@contextmanager
def _connected(workers: int, scheduler: str | None) -> Iterator[Client]:
    """A client of the scheduler, or of processes of this machine that end with it.

    Raises:
        UserError: no scheduler answers at the address.
    """
    if scheduler is None:
        with _local_cluster(workers) as cluster, Client(cluster, set_as_default=False) as client:
            yield client
        return
    try:
        asyncio.run(asyncio.wait_for(_greet(scheduler), PATIENCE))
        client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # what else listens there may answer anything at all
        reason = str(error) or f"nothing within {PATIENCE} s"
        raise UserError(
            f"no Dask scheduler answers at {scheduler!r} ({reason}): give the address that "
            "`dask scheduler` printed, for example tcp://192.168.0.1:8786"
        ) from None
    try:
        if not client.scheduler_info()["workers"]:
            ERR.print(f"waiting for workers: `dask worker {scheduler} --nthreads 1` starts one")
        yield client
    finally:
        with suppress(Exception):  # the scheduler may go away in the middle of a goodbye
            client.close()


async def _greet(scheduler: str) -> None:
    """Shakes hands: a client alone would wait for ever where something listens and says nothing."""
    arguments = Security().get_connection_args("client")
    comm = await connect(scheduler, timeout=PATIENCE, **arguments)
    comm.abort()


@contextmanager
def _local_cluster(workers: int) -> Iterator[LocalCluster]:
    """Processes of this machine, one thread each, that nobody else can reach.

    Whoever reaches a scheduler can run anything as its user. So both sides prove by a key who they
    are. The keys are made here, are known to these processes alone, and are gone with them.

    Where they can be forked, one process loads the modules that this process has loaded, and the
    workers share them. Ctrl+C reaches this process alone, which then ends the others.

    Raises:
        UserError: the processes do not start.
    """
    with dask.config.set({**LOCAL, "temporary-directory": str(_scratch())}):
        if FORKED:
            loaded = [name for name in sys.modules if name.partition(".")[0] in OURS]
            get_mp_context().set_forkserver_preload(["distributed", *loaded])
            resource_tracker.ensure_running()  # else it is started below, and lets Ctrl+C in again
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            forkserver.ensure_running()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        with ExitStack() as opened:
            try:
                with _interrupted_later(), _without_script():
                    cluster = opened.enter_context(
                        LocalCluster(
                            n_workers=workers,
                            threads_per_worker=1,
                            memory_limit=0,
                            host="127.0.0.1",
                            protocol="tls://",
                            security=Security.temporary(),
                            dashboard_address="127.0.0.1:0",  # a free port; no page is served there
                            scheduler_kwargs={"dashboard": False},
                            silence_logs=logging.CRITICAL,
                            worker_class=_Impatient,
                        )
                    )
            except Exception:  # Dask may raise anything
                raise UserError(
                    "the processes that were to work side by side did not start: ask for one, "
                    "--workers 1, or try later"
                ) from None
            yield cluster


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Ctrl+C waits for the end of what stands inside: a cluster that is half made cannot close."""
    pressed: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    ours = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt


@contextmanager
def _without_script() -> Iterator[None]:
    """A process that starts meanwhile does not run the script of this one: the dashboard's would
    draw a page there."""
    with STARTING:
        script, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


SCRATCH = "structure-lab-workers-"
"""The beginning of the name of a folder of ``_scratch``; eight hex digits follow."""


@cache
def _scratch() -> Path:
    """The folder of this process for what its workers leave on the disk: sockets, and Dask's own.

    It is removed when the process ends. A process that is killed cannot do that: the next one does.
    """
    place = Path(tempfile.gettempdir())
    for stale in place.glob(SCRATCH + 8 * "[0-9a-f]"):
        if not is_locked(stale):
            shutil.rmtree(stale, ignore_errors=True)
    folder, held = place / f"{SCRATCH}{uuid4().hex[:8]}", ExitStack()
    held.enter_context(locked(folder))
    folder.mkdir(mode=0o700)
    held.callback(shutil.rmtree, folder, ignore_errors=True)
    tempfile.tempdir, before = str(folder), tempfile.tempdir
    try:
        util.get_temp_dir()  # multiprocessing asks for it once, and stays there
    finally:
        tempfile.tempdir = before
    util.Finalize(None, held.close, exitpriority=-200)  # it removes its own folder at -100
    return folder


class _Impatient(Nanny):
    """Ends a worker's process even in the middle of a job: when the cluster is closed, nobody waits
    for the job any more."""

    async def kill(self, timeout: float = 0.5, reason: str = "nanny-kill") -> None:
        with suppress(TimeoutError):  # it is killed by then; a busy machine clears it away later
            await super().kill(min(timeout, 0.5), reason)
