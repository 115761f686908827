"""The door between a lens and the truth: jobs go out through it, and answers come in."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Self

import psutil
from annotated_types import Interval
from pydantic import ConfigDict, TypeAdapter

from analyses.scoring.paper import Question, Words, write_network
from models.transformer.model import HookedTransformer

START = 120.0
"""Seconds within which the process of a lens must have started."""
LAST = 5.0
"""Seconds that a process has to end after its last reply."""
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Reply:
    """The reply of a lens to one question.

    Attributes:
        answer: the answer as JSON has it; None where there is a fault.
        fault: the fault in one line; empty where there is none.
        calls: number of words that the network was given.
        milliseconds: the time that the lens took.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    answer: Any = None
    fault: str = ""
    calls: Annotated[int, Interval(ge=0, lt=2**53)] = 0
    milliseconds: float = float("nan")


class Door:
    """A process with a file of lenses. It starts with the first job, and again after it died, but
    not after it could not start.

    Args:
        file: a Python file with a function per question; or with ``LENSES``, such functions by
            lens.
        limit: seconds for an answer.
    """

    def __init__(self, file: Path, limit: float) -> None:
        self.file, self.limit = file.resolve(), limit
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._folder, self._fault = tempfile.TemporaryDirectory(), ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._end()
        self._folder.cleanup()

    def ask(
        self, model: HookedTransformer, words: Words, question: Question, lens: str = ""
    ) -> Reply:
        """The lens's answer, or its fault.

        Args:
            lens: the lens's name, in a file of many.
        """
        Path(self._folder.name).mkdir(mode=0o700, exist_ok=True)  # a lens may have removed it
        if self._process is None:
            self._fault = self._fault or self._start()
        if self._fault:
            return Reply(fault=self._fault)
        with (
            suppress(FileNotFoundError),
            tempfile.TemporaryDirectory(dir=self._folder.name) as folder,
        ):
            words.write(Path(folder), question)
            write_network(model, Path(folder))
            assert self._process is not None
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps({"folder": folder, "lens": lens}) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError:  # it ended after its last answer
                self._end()
                return Reply(fault="its process ended between two questions")
            reply = self._reply(self.limit)
            if os.path.isdir(folder):
                return reply
        self._end()
        return Reply(fault="it removed its working folder")

    def _start(self) -> str:
        """Starts the process. Returns the fault of the file; empty if there is none."""
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "analyses.scoring.inside", str(self.file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",  # what is not UTF-8 is no reply, either
            cwd=self._folder.name,
            env=environment,
        )
        self._lines = queue.Queue()
        self._reader = threading.Thread(
            target=_read, args=(self._process, self._lines), daemon=True
        )
        self._reader.start()
        fault = self._reply(START).fault
        if fault:
            self._end()
        return fault

    def _reply(self, limit: float) -> Reply:
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self._end()
            return Reply(fault=f"no answer within {limit:g} seconds")
        if not line:
            assert self._process is not None
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=LAST)
            status = self._process.returncode
            self._end()
            ended = "closed its replies, and went on" if status is None else f"status {status}"
            return Reply(fault=f"its process ended ({ended})")
        try:
            return TypeAdapter(Reply).validate_python(json.loads(line))
        except (ValueError, RecursionError):
            self._end()
            return Reply(fault="it wrote among the replies of its process")

    def _end(self) -> None:
        """Ends the process and all its children, which may hold its pipes open."""
        if self._process is not None:
            with suppress(psutil.Error):
                for child in psutil.Process(self._process.pid).children(recursive=True):
                    child.kill()
            self._process.kill()
            self._process.wait()
            self._reader.join(LAST)
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with suppress(OSError):  # what was not sent is not needed any more
                    pipe.close()
            self._process = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Passes on the lines of a process, and "" at the end."""
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:  # the pipe was closed
        pass
    lines.put("")
