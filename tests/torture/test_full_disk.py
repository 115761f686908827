"""The disk is full at the n-th call that writes, for every n."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import commands
import pytest
from commands import COMMANDS, leftovers, outcome

pytestmark = pytest.mark.slow


class Disk:
    """Calls that write, counted; the n-th one fails, and so do all that follow.

    A write that fails has written half of what it should.
    """

    def __init__(self, last: int) -> None:
        self.left = last

    @property
    def full(self) -> bool:
        self.left -= 1
        return self.left < 0

    def refuse(self) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def disk(last: int, below: Path) -> Iterator[Disk]:
    """No space for files below a folder after so many calls."""
    counted = Disk(last)
    opened = io.open

    def ours(path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and str(below) in str(path)

    def refusing(call: Any) -> Any:
        def refused(*args: Any, **more: Any) -> Any:
            if not args or isinstance(args[0], int) or ours(args[0]):
                counted.refuse()
            return call(*args, **more)

        return refused

    def half(file: Any, *args: Any, **more: Any) -> Any:
        mode = args[0] if args else more.get("mode", "r")
        stream = opened(file, *args, **more)
        if not ours(file) or mode in ("r", "rb"):
            return stream
        return Half(stream, counted)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("replace", "fsync", "mkdir"):
            patch.setattr(os, name, refusing(getattr(os, name)))
        patch.setattr(io, "open", half)
        yield counted


class Half:
    """A file that may be full."""

    def __init__(self, stream: Any, counted: Disk) -> None:
        self.stream, self.counted = stream, counted

    def __enter__(self) -> Half:
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, content: Any) -> int:
        if self.counted.full:
            self.stream.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self.stream.write(content))


@pytest.mark.parametrize("command", COMMANDS)
def test_full_at_every_write(
    command: str, tmp_path: Path, full: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so; nothing half made is left; with room, it ends as an undisturbed one."""
    if not full and command != "train":
        pytest.skip("make torture fills the disk for the other commands too")
    fresh, calm = tmp_path / "fresh", tmp_path / "calm"
    fresh.mkdir()
    commands.prepare(command, fresh)
    shutil.copytree(fresh, calm)
    with disk(10**9, tmp_path) as counted:
        assert commands.begin(command, calm) == 0
    calls, expected = 10**9 - counted.left, outcome(calm)
    assert calls > 5
    for last in range(0, calls, 1 if full else max(calls // 4, 1)):
        folder = Path(shutil.copytree(fresh, tmp_path / f"full{last}"))
        capsys.readouterr()
        with disk(last, folder):
            status = commands.begin(command, folder)
        if status:  # what is only kept to save time may be missing
            assert status == 2
            (said,) = capsys.readouterr().err.strip().splitlines()
            assert said.startswith("lab: cannot write")
        assert leftovers(folder) == []
        assert commands.begin(command, folder) == 0
        assert outcome(folder) == expected
        shutil.rmtree(folder)
