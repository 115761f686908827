"""The user's cache folder: what takes long to make and can be made again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from models.errors import UserError
from models.plain_files import read_bytes
from models.runs.files import write_bytes


def cache_folder() -> Path:
    """STRUCTURE_LAB_CACHE, or the lab's folder in the user's cache."""
    if folder := os.environ.get("STRUCTURE_LAB_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "structure-lab"


def kept_text(name: str, make: Callable[[], str]) -> str:
    """A text that is made once. Where the file is missing or damaged, it is made again.

    Args:
        name: name of the file, with all that the text hangs on.
    """
    file = cache_folder() / name
    with suppress(UserError):
        digest, _, content = read_bytes(file, "remove it").partition(b"\n")
        if digest == _digest(content):
            return content.decode()
    text = make()
    with suppress(UserError):  # a full or read-only disk costs time, not the answer
        write_bytes(file, _digest(text.encode()) + b"\n" + text.encode())
    return text


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
