"""Work in processes of their own, each a `lab` command: it lives on when the page is closed, and
when the dashboard ends.

Each belongs to a folder, which the command locks as long as it works on it. So two never work on
one folder, and whoever opens a page later sees that one does.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

import streamlit as st

from analyses.console import STOPPED
from models.runs.files import is_locked

SAYS = "lab: "
"""The beginning of the line in which a command says why it failed."""
AT_ONCE = max(2, (os.cpu_count() or 1) // 2)
"""Processes that work at a time; the others wait. With more, each would be slower."""


@dataclass
class _Work:
    """A command that was asked for. Its process is None as long as it waits."""

    words: Sequence[str]
    log: Path
    process: Popen[bytes] | None = None

    @property
    def goes_on(self) -> bool:
        return self.process is None or self.process.poll() is None


@dataclass
class _Works:
    """The works that the pages of this server have begun, by the folder that each works on."""

    of: dict[Path, _Work] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Starts what waits, as far as there is room."""
        with self.lock:
            running = sum(work.process is not None and work.goes_on for work in self.of.values())
            waiting = [work for work in self.of.values() if work.process is None]
            for work in waiting[: max(0, AT_ONCE - running)]:
                command = [sys.executable, "-m", "analyses.command_line", *work.words]
                work.log.unlink(missing_ok=True)  # to write to a pipe might wait for ever
                with work.log.open("wb") as file:
                    work.process = Popen(command, stdout=file, stderr=file)
                threading.Thread(target=self._after, args=(work.process,), daemon=True).start()

    def _after(self, process: Popen[bytes]) -> None:
        process.wait()
        self.start()


def begin(folder: Path, words: Sequence[str], log: Path) -> None:
    """Begins a `lab` command that works on a folder, once there is room for it. If one that began
    here goes on, nothing is done.

    Args:
        words: the words of the command, without "lab".
        log: the file of what it says; the one before is replaced.
    """
    works = _works()
    if folder in works.of and works.of[folder].goes_on:
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    works.of[folder] = _Work(words, log)
    works.start()


def is_working(folder: Path) -> bool:
    """Does a process work on this folder now, begun here or elsewhere, or wait for its turn?"""
    return can_stop(folder) or is_locked(folder)


def is_waiting(folder: Path) -> bool:
    """Does it wait until another one has ended?"""
    work = _works().of.get(folder)
    return work is not None and work.process is None


def can_stop(folder: Path) -> bool:
    """Did it begin here, and does it go on? Only then can it be stopped from here."""
    work = _works().of.get(folder)
    return work is not None and work.goes_on


def stop(folder: Path) -> None:
    """Asks the process to end, as Ctrl+C does: it keeps what is done. What waits is forgotten."""
    works = _works()
    with works.lock:
        work = works.of.get(folder)
        if work is None:
            return
        if work.process is None:
            del works.of[folder]
        elif work.goes_on:
            work.process.send_signal(signal.SIGINT)


def forget(folder: Path) -> None:
    """No more is said of what ended."""
    works = _works()
    with works.lock:
        if folder in works.of and not works.of[folder].goes_on:
            del works.of[folder]


def fault(log: Path) -> str | None:
    """Why the command of this log failed; None where it did not, or did not say so."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    last = next((x.removeprefix(SAYS) for x in reversed(lines) if x.startswith(SAYS)), None)
    return None if last == STOPPED else last


def begun() -> list[Path]:
    """The folders of all that began here, the newest last."""
    return [*_works().of]


@st.cache_resource
def _works() -> _Works:
    return _Works()
