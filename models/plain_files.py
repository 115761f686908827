"""Files and text from outside: plain files that fit into memory, and letters in one form."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from pathlib import Path

from models.errors import UserError, told
from models.errors import cure as cure_of

MOST_BYTES = 256 * 2**20
"""No file that the lab writes or reads as a whole comes near to this."""


def read_bytes(path: Path, cure: str, most: int | None = None) -> bytes:
    """The content of a file.

    Args:
        cure: the cure if the file cannot be read; the end of the error's sentence.
        most: the largest number of bytes; ``MOST_BYTES`` unless it is given.

    Raises:
        UserError: the file is missing, no plain file, or larger than ``most``.
    """
    size = plain_size(path, cure, most)
    try:
        # Some files of the system say that they have no bytes, and then wait or never end.
        return path.read_bytes() if size else b""
    except OSError as error:
        raise _refused(path, error, cure) from None


def _refused(path: Path, error: OSError, cure: str) -> UserError:
    """The error for what the system does not give."""
    if isinstance(error, PermissionError):
        cure = "ask for the right to read it"
    return UserError(f"cannot read {path} ({told(error)}): {cure}")


def folders_in(folder: Path) -> list[str]:
    """The names of the folders in a folder, and of links to folders; none where there is no folder.
    Raises UserError if it may not be read or entered."""
    try:
        with os.scandir(os.path.join(folder, ".")) as entries:  # to reach "." it must be entered
            return [e.name for e in entries if e.is_dir(follow_symlinks=False) or os.path.isdir(e)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _refused(folder, error, cure_of(error)) from None


def plain_size(path: Path, cure: str, most: int | None = None) -> int:
    """The number of bytes in a file that may be read; arguments and errors as ``read_bytes``."""
    most = MOST_BYTES if most is None else most
    try:
        status = path.stat()
    except OSError as error:
        raise _refused(path, error, cure) from None
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path} is a folder, not a file: {cure}")
    if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device might never end
        raise UserError(f"{path} is not a plain file: {cure}")
    if not os.access(path, os.R_OK):  # whoever maps a file says that there is none
        raise _refused(path, PermissionError(errno.EACCES, "Permission denied"), cure)
    if status.st_size > most:
        size, unit = (2**20, "MiB") if most >= 2**20 else (1, "bytes")
        raise UserError(
            f"{path} has {-(-status.st_size // size)} {unit}, far too many (at most "
            f"{most // size}): {cure}"
        )
    return status.st_size


def read_text(path: Path, cure: str, most: int | None = None) -> str:
    """The content of a text file in UTF-8, in ``one_form``; arguments and errors as ``read_bytes``.

    Raises:
        UserError: as ``read_bytes``, or the file is not UTF-8. One with a zero byte is none: it is
            binary, or UTF-16 without its mark.
    """
    content = read_bytes(path, cure, most)
    zero = content.find(0)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        zero = error.start
    if zero >= 0:
        raise UserError(f"{path}: not UTF-8 (byte {zero}): save it as plain text in UTF-8")
    return one_form(text)


def one_form(text: str) -> str:
    """The text in Unicode's NFC: a letter and its accent are one letter, however they are typed."""
    return unicodedata.normalize("NFC", text)
