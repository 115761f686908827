"""Work in the background: it goes on when the page that began it is closed, and whoever opens that
page again, or asks the same in another tab, finds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import streamlit as st

from analyses.answers import Progress
from dashboard.markup import text

T = TypeVar("T")


LEFT = 20.0
"""Seconds after which a page that nobody has looked at counts as left."""
AT_ONCE = 2.0
"""Seconds that a page waits for a result before it shows how far that is."""
KEPT = 64
"""Ended jobs that are kept in memory."""


class _StoppedError(Exception):
    """The reader stopped the work, or left its page."""


class _Job(Generic[T]):
    """A computation in a thread of its own, which begins at once.

    Args:
        lasting: it goes on when its page is left, since its result is kept on the disk.

    Attributes:
        share: the share of it that is done, 0 to 1.
        what: the step that is being done, in words.
        result: the result; None until it is there.
        error: the reason that there is no result.
    """

    def __init__(self, work: Callable[[Progress], T], lasting: bool) -> None:
        self.share, self.what = 0.0, "starting"
        self._lasting, self._stop = lasting, False
        self._began = self._watched = time.monotonic()
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
        left = not self._lasting and time.monotonic() - self._watched > LEFT
        if self._stop or left:
            raise _StoppedError
        self.share, self.what = min(done / total, 1.0), what

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def left(self) -> str:
        """The time that is left if the rest is as fast; "" while less than 3% is done."""
        passed = time.monotonic() - self._began
        if passed < AT_ONCE or self.share < 0.03:
            return ""
        left = passed * (1 - self.share) / self.share
        return f"; about {left:.0f} s left" if left < 100 else f"; about {left / 60:.0f} min left"

    def watched(self) -> None:
        """Somebody looks at its page."""
        self._watched = time.monotonic()

    def stop(self) -> None:
        """Ends the work the next time that it tells its progress."""
        self._stop = True

    def wait(self, seconds: float | None = None) -> None:
        """Returns when the work has ended, however it ended, or after some seconds."""
        self._thread.join(seconds)


class _Jobs:
    """The jobs of all pages, by what they compute."""

    def __init__(self) -> None:
        self._jobs: dict[Hashable, _Job[Any]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _Job[Any] | None:
        """The running or the last job of this key."""
        return self._jobs.get(key)

    def forget(self, key: Hashable) -> None:
        """Lets a job go that has ended."""
        with self._lock:
            self._jobs.pop(key, None)

    def begin(
        self, key: Hashable, work: Callable[[Progress], Any], lasting: bool = True
    ) -> _Job[Any]:
        """The running job of this key, or a new one."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or not job.running:
                ended = [key for key, other in self._jobs.items() if not other.running]
                for old in ended[: max(0, len(ended) - KEPT)]:
                    del self._jobs[old]
                job = self._jobs[key] = _Job(work, lasting)
            return job

    def running(self) -> list[tuple[Hashable, _Job[Any]]]:
        """The jobs that are computed now, each with its key."""
        return [(key, job) for key, job in self._jobs.items() if job.running]

    def wait(self) -> None:
        """Returns when all jobs have ended, and looks at them until then: none counts as left."""
        for job in [*self._jobs.values()]:
            while job.running:
                job.watched()
                job.wait(LEFT / 4)


JOBS = _Jobs()
"""The jobs of this server, for all tabs."""


def offer(key: Hashable, label: str, work: Callable[[Progress], object], **looks: Any) -> None:
    """A button that has something computed and kept. While it is computed, its progress stands in
    the button's place; then the page is drawn anew.

    Args:
        key: the name of what is computed. Pages that offer the same share one computation.
        work: computes it, and tells its progress. It must not draw anything.
        looks: the button's looks.

    Raises:
        Exception: the last attempt failed; the button is drawn all the same.
    """
    job = JOBS.get(key)
    if job is None or not job.running:
        place = st.empty()
        if not place.button(text(label), key=f"offer {key}", **looks):
            if job is not None and not (job.error is None or isinstance(job.error, _StoppedError)):
                raise job.error
            return
        place.empty()
        job = JOBS.begin(key, work)
    _watch(job)


def at_once(key: Hashable, work: Callable[[Progress], T]) -> T | None:
    """Computes like ``offer``, without a button: it begins when a page first asks, and is kept in
    memory. It ends when nobody looks at the page any more.

    Returns:
        The result; None as long as it is computed, and where it was stopped.

    Raises:
        Exception: the attempt failed. Whoever asks again begins another one.
    """
    job: _Job[T] = JOBS.get(key) or JOBS.begin(key, work, lasting=False)
    if job.running:
        job.watched()
        with st.spinner("Computing ..."):
            job.wait(AT_ONCE)
    if job.running:
        _watch(job)
    elif isinstance(job.error, _StoppedError):
        st.info("This was stopped before it was done.")
        st.button("Compute it", on_click=JOBS.forget, args=(key,), key=f"again {key}")
    elif job.error is not None:
        JOBS.forget(key)
        raise job.error
    return job.result


def _watch(job: _Job[Any]) -> None:
    """Shows how far a job is, until it has ended, and a button that stops it."""

    @st.fragment(run_every=1)
    def follow() -> None:
        if not job.running:
            st.rerun()
        job.watched()
        bar, button = st.columns([5, 1])
        bar.progress(job.share, text(job.what + job.left))
        button.button("Stop", on_click=job.stop, key=f"stop {id(job)}")

    follow()
