"""The one exception that means "the user can fix this": the command line prints it as one line."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class UserError(Exception):
    """A mistake outside the program: the message names the fault and the cure, in one line."""


class DivergedError(UserError):
    """A training whose loss or weights are no numbers any more."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist: it names the one that was probably meant.

    Args:
        what: the kind of thing, as "language".
        known: the names that exist.
    """
    known = list(known)
    return UserError(
        f"unknown {what} {name!r}: {meant(name, known)}choose one of {', '.join(known)}"
    )


def meant(name: str, known: Iterable[str]) -> str:
    """A question for the known name that is nearest, in capitals or not; empty if none is near."""
    lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[near[0]]}? " if near else ""


def lab(name: str, *words: object, **options: object) -> str:
    """A command of `lab`, as a reader types it. Every page, report and message writes it so.

    Args:
        name: of the command.
        words: what follows it, such as a run.
        options: by their names in Python. One that is None is left out.
    """
    typed = ["lab", name, *map(str, words)]
    for key, value in options.items():
        option = f"--{key.replace('_', '-')}"
        if isinstance(value, bool):
            typed.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, list | tuple):
            typed += [option, *map(str, value)]
        elif str(value).startswith("-"):  # alone it would be an option itself
            typed.append(f"{option}={value}")
        elif value is not None:
            typed += [option, str(value)]
    return shlex.join(typed)


CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "choose another folder, or change its rights",
    errno.EPERM: "choose another folder, or change its rights",
    errno.EROFS: "choose another folder",
    errno.ENOTDIR: "choose another path, where no file is in the way",
    errno.EEXIST: "choose another path, where no file is in the way",
    errno.EMFILE: "close some files, or raise the limit with `ulimit -n`",
}
"""What helps, by the system's number of an error."""


def told(error: OSError) -> str:
    """The system's reason, in its own words."""
    return error.strerror or str(error)


def cure(error: OSError) -> str:
    """What helps against an error of the system."""
    return CURES.get(error.errno or 0, "check the path")


def first_fault(error: ValidationError) -> str:
    """What pydantic found wrong first, in one line: "seed: Input should be a valid integer"."""
    found = error.errors(include_url=False, include_input=False)[0]
    if found["type"] == "json_invalid":
        return str(found["ctx"]["error"])
    parts = [*map(str, found["loc"]), found["msg"]]
    return " ".join(f"{'.'.join(parts[:-1])}: {parts[-1]}".removeprefix(": ").split())
