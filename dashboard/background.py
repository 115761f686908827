"""Work in the background: it goes on when the page that began it is closed, and whoever opens that
page again, or asks the same in another tab, finds it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import streamlit as st

from analyses.answers import Progress
from dashboard.markup import text

T = TypeVar("T")


class Job(Generic[T]):
    """A computation in a thread of its own, which begins at once.

    Attributes:
        share: how much of it is done, 0 to 1.
        what: what is being done.
        result: what came out; None until then.
        error: why nothing came out.
    """

    def __init__(self, work: Callable[[Progress], T]) -> None:
        self.share, self.what = 0.0, "starting"
        self.result: T | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[Progress], T]) -> None:
        try:
            self.result = work(self._report)
        except Exception as error:  # the page shows it
            self.error = error

    def _report(self, done: int, total: int, what: str) -> None:
        self.share, self.what = min(done / total, 1.0), what

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Returns when the work has ended, however it ended."""
        self._thread.join()


class Jobs:
    """The jobs of all pages, by what they compute."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, Job[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> Job[Any] | None:
        """The running or the last job of this key."""
        return self._jobs.get(key)

    def forget(self, key: Hashable) -> None:
        """Lets a job go that has ended."""
        with self._lock:
            self._jobs.pop(key, None)

    def begin(self, key: Hashable, work: Callable[[Progress], Any]) -> Job[Any]:
        """The running job of this key, or a new one."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or not job.running:
                job = self._jobs[key] = Job(work)
            return job

    def wait(self) -> None:
        """Returns when all jobs have ended."""
        for job in [*self._jobs.values()]:
            job.wait()


JOBS = Jobs()
"""Those of this server, for all tabs."""


def offer(key: Hashable, label: str, work: Callable[[Progress], object], **looks: Any) -> None:
    """A button that has something computed and kept. While it is computed, its progress stands in
    the button's place; then the page is drawn anew.

    Args:
        key: what is computed. Pages that offer the same share one computation.
        work: computes it, and tells its progress. It must not draw anything.
        looks: of the button.

    Raises:
        Exception: the last attempt failed; the button is drawn all the same.
    """
    job = JOBS.get(key)
    if job is None or not job.running:
        if not st.button(text(label), key=f"offer {key}", **looks):
            if job is not None and job.error is not None:
                raise job.error
            return
        job = JOBS.begin(key, work)
    _watch(job)


def at_once(key: Hashable, work: Callable[[Progress], T]) -> T | None:
    """As ``offer``, without a button: it begins when a page first asks, and is kept in memory.

    Returns:
        What came out; None as long as it is computed.

    Raises:
        Exception: the attempt failed. Whoever asks again begins another one.
    """
    job: Job[T] = JOBS.get(key) or JOBS.begin(key, work)
    if job.error is not None and not job.running:
        JOBS.forget(key)
        raise job.error
    if job.running:
        _watch(job)
    return job.result


def _watch(job: Job[Any]) -> None:
    """Shows how far a job is, until it has ended."""

    @st.fragment(run_every=1)
    def follow() -> None:
        if not job.running:
            st.rerun()
        st.progress(job.share, text(job.what))

    follow()
