"""Files that are whole or absent: each is written under another name, then renamed."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from filelock import BaseFileLock, FileLock, Timeout

from models.errors import UserError, cure, told
from models.plain_files import read_bytes

OLD = 3600.0
"""Seconds after which nobody can still be writing a file."""
ELSEWHERE = "choose another folder, or move it away"
"""The cure for a file that is in the way."""
PID = 8
"""Digits of a process' number."""
LOCK = ".lab-lock"
"""The end of the name of a lock, which no other program gives to its own."""
PARTIAL = re.compile(r"\.(.*)\.([0-9a-f]{32})\.partial", re.DOTALL)
"""The name of what is half written. The digits begin with those of ``_writer``."""


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns an OSError while ``path`` is written into a UserError of one clear line."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {path} ({told(error)}): {cure(error)}") from None


def write_bytes(path: Path, content: bytes, once: bool = False) -> None:
    """Replaces the file at once; a reader sees the old content or the new, never a part.

    Args:
        once: whether this content is the only one that the file ever has: another is not replaced.

    Raises:
        UserError: the folder cannot be written or the disk is full, or another content is not
            replaced; the old file is untouched.
    """
    if once and path.exists() and read_bytes(path, ELSEWHERE) != content:
        raise UserError(f"{path} holds something else than is to be written: {ELSEWHERE}")
    path = Path(os.path.realpath(path))  # what a link leads to is written, and the link stays
    beside = _partial_name(path)
    with _writing(path), making(path.parent):
        try:
            _write(beside, content)
            os.replace(beside, path)
            _settle(path.parent)
        finally:
            with suppress(OSError):
                beside.unlink()


def append_bytes(path: Path, content: bytes) -> None:
    """Adds to the end of a file, down to the disk. On a full disk a part may be added.

    Raises:
        UserError: the file cannot be written or the disk is full.
    """
    with _writing(path):
        _write(path, content, "ab")


def write_json(path: Path, content: Any) -> None:
    """Replaces a JSON file at once; raises UserError like ``write_bytes``."""
    write_bytes(path, as_json(content))


def as_json(content: Any) -> bytes:
    """The bytes of a JSON file, for a person to read."""
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def make_folder(path: Path, files: dict[str, bytes]) -> bool:
    """Makes a folder of files at once. Of several processes that make the same one, one succeeds.

    Args:
        files: the contents by their names; "folder/name" lies in a folder of the folder.

    Returns:
        Whether it was made. A folder that is there already is untouched.

    Raises:
        UserError: as ``write_bytes``.
    """
    with _folder_beside(path, files) as beside:
        try:
            os.replace(beside, path)
        except OSError:
            if path.exists():
                return False
            raise
    return True


def write_folder(path: Path, files: dict[str, bytes]) -> None:
    """Replaces a folder of files; the old one is removed once the new one stands in its place.
    Other files of the old one are kept as by ``remove_folder``.

    Raises:
        UserError: as ``write_bytes``.
    """
    with _folder_beside(path, files) as beside:
        old = _aside(path, files)
        replaced = path.exists()
        if replaced:
            os.replace(path, old)
        try:
            os.replace(beside, path)
        except OSError:
            if replaced:
                os.replace(old, path)
            raise
        _clear(old, files)


@contextmanager
def _folder_beside(path: Path, files: dict[str, bytes]) -> Iterator[Path]:
    """The whole folder under another name. What is left under this name in the end is removed."""
    beside = _partial_name(path)
    with _writing(path), making(path.parent):
        try:
            beside.mkdir()
            for name, content in files.items():
                (beside / name).parent.mkdir(parents=True, exist_ok=True)
                _write(beside / name, content)
            for folder in {(beside / name).parent for name in files} | {beside}:
                _settle(folder)
            yield beside
            _settle(path.parent)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def remove_folder(path: Path, files: Collection[str]) -> None:
    """Takes a folder away at once: a reader sees all of it or nothing.

    What somebody has put beside its files is kept, in a folder ``NAME.kept`` or ``NAME.kept-2``.

    Args:
        files: names of the files that the lab has written there.

    Raises:
        UserError: it cannot be removed.
    """
    with _writing(path):
        try:
            aside = _aside(path, files)
            path.rename(aside)
        except FileNotFoundError:  # another process removed it
            return
    _clear(aside, files)


def _aside(path: Path, files: Collection[str]) -> Path:
    """The name under which a folder is removed: one that is kept if it holds other files too."""
    if path.is_symlink() or not path.is_dir() or set(os.listdir(path)) <= {*files}:
        return _partial_name(path)
    names = (f"{path.name}.kept{end}" for end in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(kept for kept in map(path.with_name, names) if not os.path.lexists(kept))


def _clear(aside: Path, files: Collection[str]) -> None:
    """Removes the files of a folder, and then the folder if nothing else is in it."""
    if aside.is_symlink():
        aside.unlink()
        return
    with suppress(OSError):
        for name in files:
            (aside / name).unlink(missing_ok=True)
        aside.rmdir()


@contextmanager
def making(folder: Path) -> Iterator[None]:
    """Makes a folder and those above it. After an error, those that were made here and are still
    empty are removed again. Raises UserError if the folder cannot be made."""
    folders: list[Path] = []
    with _writing(folder):
        folders += takewhile(lambda path: not path.exists(), (folder, *folder.parents))
    try:
        with _writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in folders:
            with suppress(OSError):  # not empty: another process uses it
                path.rmdir()
        raise


def sweep(folder: Path, age: float = OLD) -> None:
    """Removes what killed processes have left in a folder: what is half written, and locks that
    nobody holds. Files that only look so are not ours: they stay.

    Args:
        age: the least age in seconds of what may be of another machine's process, or of a living
            one. By default, so old that nobody can still be writing it. 0 is for whoever alone
            writes to this folder.
    """
    with suppress(OSError):  # another process may remove it too
        for entry in (*folder.glob(".*.partial"), *folder.glob(f".*{LOCK}")):
            young = time.time() - entry.lstat().st_mtime < age
            if not _is_ours(entry) or (young and not _is_left(entry)):
                continue
            if entry.suffix == LOCK:
                is_locked(folder / entry.name[1 : -len(LOCK)])  # if not, the file is removed
            elif entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()


def _is_ours(entry: Path) -> bool:
    """Is it half written, or the lock of what stands beside it?"""
    if entry.suffix == LOCK:
        return not _is_no_lock(entry) and entry.with_name(entry.name[1 : -len(LOCK)]).exists()
    return PARTIAL.fullmatch(entry.name) is not None


def _is_left(entry: Path) -> bool:
    """Did a process of this machine begin to write it that has ended since?"""
    half, here = PARTIAL.fullmatch(entry.name), _machine()
    if not half or not here or not half[2].startswith(here):
        return False
    return not Path("/proc", str(int(half[2][len(here) :][:PID], 16))).exists()


def _writer() -> str:
    """Digits for this process, which those who see it can tell; "" where there is no ``/proc``."""
    return _machine() and f"{_machine()}{os.getpid():0{PID}x}"


@cache
def _machine() -> str:
    """Digits for the processes that see each other: of this machine since its start, or of this
    container. Machines that share a folder have other ones."""
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_bytes()
        return sha256(start + os.readlink("/proc/self/ns/pid").encode()).hexdigest()[:12]
    except OSError:
        return ""


def _is_no_lock(entry: Path) -> bool:
    """Is it no empty file, as locks are? Somebody else has put it there then."""
    try:
        status = entry.stat()
    except OSError:  # there is none, or it was given back just now
        return False
    return not stat.S_ISREG(status.st_mode) or status.st_size > 0


def _partial_name(path: Path) -> Path:
    """A name beside ``path`` that no other thread, process or container writes to. What killed
    writers have left is removed by the way."""
    sweep(path.parent)
    return path.with_name(f".{path.name}.{(_writer() + uuid4().hex)[:32]}.partial")


def _write(path: Path, content: bytes, mode: Literal["xb", "ab"] = "xb") -> None:
    """Writes a new file down to the disk, so that a rename never precedes what it renames."""
    with path.open(mode) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Writes the names of a folder down to the disk. Windows cannot, and does so by itself."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock of a folder, which need not exist yet; whoever comes second waits.

    The lock is the file ``.NAME.lab-lock`` beside the folder. The system releases it when the
    process that holds it ends, however it ends.

    Raises:
        UserError: the lock cannot be written, or the file system knows no locks; or what bears its
            name is none.
    """
    beside = _lock_of(path)
    if _is_no_lock(beside):
        raise UserError(f"{beside} is in the way of a lock: move it away")
    # Without system locks filelock falls back to a marker file, which would outlive its holder.
    lock = FileLock(beside, fallback_to_soft=False)
    with making(beside.parent):
        with _writing(beside):
            lock.acquire()
        try:
            yield
        finally:
            _give_back(lock, beside)


def is_locked(path: Path) -> bool:
    """Does somebody hold the lock of a folder now: another process, or a thread of this one?

    If nobody does, its file is removed. A lock that this process may not open counts as held; what
    only bears its name stays.
    """
    beside = _lock_of(path)
    if not beside.exists() or _is_no_lock(beside):
        return False
    lock = FileLock(beside, fallback_to_soft=False)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):
        return True
    _give_back(lock, beside)
    return False


def _lock_of(path: Path) -> Path:
    path = Path(os.path.realpath(path))  # links that lead in a circle are told when it is opened
    return path.with_name(f".{path.name}{LOCK}")


def _give_back(lock: BaseFileLock, beside: Path) -> None:
    # Removed while the lock is held, so that whoever waits sees that the file is gone. Windows
    # refuses to do this; there filelock removes the file itself.
    with suppress(PermissionError):
        beside.unlink(missing_ok=True)
    lock.release()
