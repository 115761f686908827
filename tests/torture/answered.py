"""How the command line answers a hostile input: run in a child that may use so much and no more."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from analyses import rendering
from analyses.command_line.app import main

CPU_SECONDS, PATIENCE, MEMORY = 30, 300, 4 * 2**30
"""What an input may cost: seconds of work, seconds on a busy machine, bytes more than before."""


@dataclass(frozen=True)
class Answered:
    """What came of a command.

    Attributes:
        status: the exit status; negative for the signal that ended it.
        out, err: what it printed.
        changed: the files that it made, changed or removed, below the folder it ran in.
    """

    status: int
    out: str
    err: str
    changed: list[str]

    def fault(self) -> str | None:
        """What is wrong with the answer; None where it is as it has to be."""
        if self.status < 0:
            return f"ended by {signal.Signals(-self.status).name}"
        if "Traceback" in self.err or self.status not in (0, 2):
            return f"status {self.status}: {self.err[-600:]}"
        if "Warning" in self.err:
            return f"a warning: {self.err[-600:]}"
        if left := [name for name in self.changed if name.endswith((".partial", ".lab-lock"))]:
            return f"left behind: {left}"
        if self.status == 0:
            return None
        if not self.err.startswith("lab: ") or self.err.count("\n") != 1:
            return f"not one line: {self.err[:600]!r}"
        if len(self.err) > 1200:
            return f"a line of {len(self.err)} characters"
        if "diverged" in self.err or "memory" in self.err:  # the run is whole up to there
            return None
        return f"half made: {self.changed[:6]}" if self.changed else None


def answered(args: Sequence[str], where: Path) -> Answered:
    """What ``lab ARGS`` answers in a folder."""
    before = fingerprint(where)
    with contextlib.ExitStack() as stack:
        said = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads that a fork does not take along
            child = os.fork()
        if child == 0:
            _obey(args, where, [file.fileno() for file in said])
        status = _ended(child)
        texts = []
        for file in said:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    after = fingerprint(where)
    changed = [name for name in before | after if before.get(name) != after.get(name)]
    return Answered(status, texts[0], texts[1], sorted(changed))


def _obey(args: Sequence[str], where: Path, said: Sequence[int]) -> None:
    """The child's part; it never returns."""
    status = 1
    try:
        os.chdir(where)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, file in enumerate(said, 1):
            os.dup2(file, number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
        sys.stderr = io.TextIOWrapper(
            io.FileIO(2, "w", closefd=False),
            encoding="utf-8",
            errors="backslashreplace",
            line_buffering=True,
        )
        warnings.resetwarnings()
        used = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY, used + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if "vl_convert" in sys.modules:  # a fork takes no threads along: a drawing would never end
            rendering.render = lambda figure, suffix: b"picture"
        try:
            status = main(args)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        status = 1
    finally:
        sys.stderr.flush()
        os._exit(status)


def _ended(child: int) -> int:
    """Waits for the child, and ends it where it takes too long."""
    until = time.monotonic() + PATIENCE
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.003)


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file and folder below a folder, with a hash of what it holds."""
    return dict(_entries(folder, folder))


def _entries(folder: Path, top: Path) -> Iterator[tuple[str, str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        path = Path(entry.path)
        name = os.path.relpath(path, top)
        if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
            yield name, "special"
        elif entry.is_dir():
            yield name, "folder"
            yield from _entries(path, top)
        else:
            try:
                yield name, sha256(path.read_bytes()).hexdigest()
            except OSError:
                yield name, "unreadable"
