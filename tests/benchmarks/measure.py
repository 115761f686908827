"""How many times faster than a peer: a ratio of two times taken side by side.

A time alone says more about the machine, and about who else is using it, than about the code. So
the candidates take turns in many short rounds, every round gives one ratio, and the result is the
median of these. Both compute in one thread. What is counted is CPU time: waiting for a busy core
is not work. CPU time is that of all threads, so a library that is not bound would pay for threads
that spin. That is why ``one_thread`` binds them all, and why a round in which another thread has
computed is an error.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

Work = Callable[[], object]

TURN = 0.01  # seconds, at the least: far above the clock's grain, and far below a change of weather
ELSEWHERE = 0.05  # the largest share of a turn that may be computed in other threads


@dataclass(frozen=True)
class Side:
    """One of the two that are timed.

    Attributes:
        who: "ours", or the peer.
        does: what it does, in a clause.
        work: does it once.
    """

    who: str
    does: str
    work: Work


@dataclass(frozen=True)
class Result:
    """One row of the table.

    Attributes:
        task: what both do.
        ours, peer: what each side does; the peer's begins with its name.
        target: what the ratio should be, at least; None without one.
        ratio: the peer's time over ours, the median over the rounds.
        low, high: the quartiles over the rounds.
        rounds: how many ratios were taken.
        our_seconds, peer_seconds: of doing it once, the medians.
    """

    task: str
    ours: str
    peer: str
    target: float | None
    ratio: float
    low: float
    high: float
    rounds: int
    our_seconds: float
    peer_seconds: float

    @classmethod
    def of(
        cls, task: str, ours: Side, peer: Side, target: float | None, times: np.ndarray
    ) -> Result:
        """From the seconds of each round, [round, (ours, the peer's)]."""
        low, median, high = np.quantile(times[:, 1] / times[:, 0], [0.25, 0.5, 0.75]).tolist()
        name, clause = f"{peer.who}: {peer.does}", ours.does
        seconds_of_each = np.median(times, axis=0).tolist()
        return cls(task, clause, name, target, median, low, high, len(times), *seconds_of_each)

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.ratio >= self.target

    def to_json(self) -> dict[str, object]:
        return asdict(self)


class UnboundError(RuntimeError):
    """A library computes in more than one thread."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Binds PyTorch, every BLAS and OpenMP that is loaded, numba and pyarrow to one thread.

    Raises:
        UnboundError: a library is still free to use more.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    others = {"numba": "set_num_threads", "pyarrow": "set_cpu_count"}
    for name, bind in others.items():
        if name in sys.modules:
            getattr(sys.modules[name], bind)(1)
    try:
        with threadpool_limits(1):
            free = [pool["filepath"] for pool in threadpool_info() if pool["num_threads"] != 1]
            if free or torch.get_num_threads() != 1:
                raise UnboundError(f"more than one thread: {', '.join(free) or 'torch'}")
            settle_threads()
            yield
    finally:
        torch.set_num_threads(before)


def seconds(side: Side, calls: int = 1) -> float:
    """CPU time of ``calls`` calls.

    Raises:
        UnboundError: part of it was spent in other threads.
    """
    start, own = time.process_time(), time.thread_time()
    for _ in range(calls):
        side.work()
    own, total = time.thread_time() - own, time.process_time() - start
    if total - own > ELSEWHERE * total + TURN:
        raise UnboundError(
            f"{side.who} computed {total - own:.2f} s of {total:.2f} s in other threads"
        )
    return total


def settle_allocator() -> None:
    """Keeps freed memory in the process.

    Until glibc has once freed a large block, it gives smaller ones back to the system and fetches
    them again, a page fault for every 4 KB. Which candidate that hits is chance, and moved ratios
    by up to a fifth. 32 MiB is the largest block that it learns from.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def settle_threads() -> None:
    """Waits until threads that computed before they were bound are asleep.

    A thread of OpenBLAS looks for more work for about 0.1 s before it goes to sleep. On a busy
    machine one that is awake may not get a core for a while, so one quiet turn is not enough.
    """
    quiet = 0
    while quiet < 5:
        start = time.process_time()
        time.sleep(TURN)
        quiet = quiet + 1 if time.process_time() - start < TURN / 2 else 0


def calls_for(side: Side) -> int:
    """How many calls last a turn. Warms up on the way: the first calls are never kept."""
    calls = 1
    while seconds(side, calls) < TURN:
        calls *= 2
    return calls


def compare(
    task: str, ours: Side, peer: Side, target: float | None = None, rounds: int = 100
) -> Result:
    """Measures ours against the peer.

    Both do the same number of calls in a turn, and who goes first alternates, so that neither
    always finds the caches as the other left them.
    """
    settle_allocator()
    for side in (ours, peer):  # loads what is imported late, before it is bound
        side.work()
    with one_thread():
        calls = max(calls_for(ours), calls_for(peer))
        gc.collect()
        gc.disable()  # else one of the two pays for the garbage of both
        try:
            times = np.array([_round(ours, peer, calls, turn % 2 == 0) for turn in range(rounds)])
        finally:
            gc.enable()
    return Result.of(task, ours, peer, target, times / calls)


def _round(ours: Side, peer: Side, calls: int, ours_first: bool) -> tuple[float, float]:
    """(our seconds, the peer's seconds) of one round."""
    if ours_first:
        return seconds(ours, calls), seconds(peer, calls)
    second = seconds(peer, calls)
    return seconds(ours, calls), second
