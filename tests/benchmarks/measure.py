"""How many times faster or slower than a peer: a ratio of two times taken side by side.

A time alone says more about the machine, and about who else is using it, than about the code. So
the candidates take turns in many short rounds, every round gives one ratio, and the result is the
median of these. Both run in one thread, and what is counted is CPU time: waiting for a busy core
is not work.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import torch

Kind = Literal["slowdown", "speedup"]
Work = Callable[[], object]

TURN = 0.01  # seconds, at the least: far above the clock's grain, and far below a change of weather


@dataclass(frozen=True)
class Result:
    """One row of the table.

    Attributes:
        task: what was timed.
        peer: against what.
        kind: "slowdown" is our time over the peer's and aims below its target; "speedup" is the
            peer's time over ours and aims above it.
        target: what the ratio should be, at most or at least.
        ratio: the median over the rounds.
        low, high: the quartiles over the rounds.
        rounds: how many ratios were taken.
        ours_per_second, peer_per_second: words, where work is counted in them; the medians.
    """

    task: str
    peer: str
    kind: Kind
    target: float
    ratio: float
    low: float
    high: float
    rounds: int
    ours_per_second: float | None = None
    peer_per_second: float | None = None

    @property
    def met(self) -> bool:
        return self.ratio <= self.target if self.kind == "slowdown" else self.ratio >= self.target

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True)
class Seconds:
    """A row of wall-clock times, of work that has no peer to take turns with.

    Attributes:
        task: what was timed.
        who: whose time.
        median, low, high: over the repetitions, seconds; low and high are the extremes.
        target: seconds at most; None without one.
    """

    task: str
    who: str
    median: float
    low: float
    high: float
    target: float | None

    @property
    def met(self) -> bool | None:
        return None if self.target is None else self.median <= self.target

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "met": self.met}


def seconds(work: Work, calls: int) -> float:
    """CPU time of ``calls`` calls."""
    start = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - start


def settle_allocator() -> None:
    """Keeps freed memory in the process.

    Until glibc has once freed a large block, it gives smaller ones back to the system and fetches
    them again, a page fault for every 4 KB. Which candidate that hits is chance, and moved ratios
    by up to a fifth. 32 MiB is the largest block that it learns from.
    """
    torch.empty(31 * 2**20, dtype=torch.uint8)


def calls_for(work: Work, turn: float) -> int:
    """How many calls last ``turn`` seconds. Warms up on the way: the first calls are never kept."""
    calls = 1
    for _ in range(3):
        work()
    while seconds(work, calls) < turn:
        calls *= 2
    return calls


def compare(
    task: str,
    ours: Work,
    peer: tuple[str, Work],
    kind: Kind,
    target: float,
    rounds: int = 100,
    words: int | None = None,
) -> Result:
    """Measures ours against the peer, which is given as (name, work); ``words`` are in one call.

    Both do the same number of calls in a turn, and who goes first alternates, so that neither
    always finds the caches as the other left them.
    """
    torch.set_num_threads(1)
    settle_allocator()
    name, theirs = peer
    calls = max(calls_for(ours, TURN), calls_for(theirs, TURN))
    gc.collect()
    gc.disable()  # else one of the two pays for the garbage of both
    try:
        times = np.array([_round(ours, theirs, calls, turn % 2 == 0) for turn in range(rounds)])
    finally:
        gc.enable()
    slowdown = times[:, 0] / times[:, 1]
    ratios = slowdown if kind == "slowdown" else 1 / slowdown
    low, median, high = (float(q) for q in np.quantile(ratios, [0.25, 0.5, 0.75]))
    rates = [None, None] if words is None else (words * calls / np.median(times, axis=0)).tolist()
    return Result(task, name, kind, target, median, low, high, rounds, *rates)


def _round(ours: Work, theirs: Work, calls: int, ours_first: bool) -> tuple[float, float]:
    """(our seconds, their seconds) of one round."""
    if ours_first:
        return seconds(ours, calls), seconds(theirs, calls)
    second = seconds(theirs, calls)
    return seconds(ours, calls), second
