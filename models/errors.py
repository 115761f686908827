"""The one exception that means "the user can fix this": the command line prints it as one line."""

from __future__ import annotations

import errno
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


class UserError(Exception):
    """A mistake outside the program: the message names the fault and the cure, in one line."""


class DivergedError(UserError):
    """A training whose loss or weights are no numbers any more."""


def unknown(what: str, name: str, names: Iterable[str]) -> UserError:
    """The error for a name that does not exist: it names the one that was probably meant.

    Args:
        what: the kind of thing, as "language".
        names: the names that exist.
    """
    names = list(names)
    return UserError(
        f"unknown {what} {name!r}: {meant(name, names)}choose one of {', '.join(names)}"
    )


def meant(name: str, names: Iterable[str]) -> str:
    """A question for the known name that is nearest, in capitals or not; empty if none is near."""
    lower = {option.lower(): option for option in names}
    near = get_close_matches(name.lower(), lower, n=1)
    return f"did you mean {lower[near[0]]}? " if near else ""


def lab(name: str, *words: object, **options: object) -> str:
    """A command of `lab`, as a reader types it. Every page, report and message writes it so.

    Args:
        name: the name of the command.
        words: the words that follow it, such as a run. A path with a dash ahead gets ./ before it.
        options: the options, by their names in Python. One that is None is left out.
    """
    paths = (f"./{w}" if isinstance(w, Path) and str(w)[:1] == "-" else str(w) for w in words)
    typed = ["lab", name, *paths]
    for key, value in options.items():
        option = option_of(key)
        if isinstance(value, bool):
            typed.append(option if value else option.replace("--", "--no-", 1))
        elif isinstance(value, list | tuple):
            typed += [option, *map(str, value)]
        elif str(value).startswith("-"):  # alone it would be an option itself
            typed.append(f"{option}={value}")
        elif value is not None:
            typed += [option, str(value)]
    return shlex.join(typed)


def option_of(name: str) -> str:
    """A field's name as an option of the command line."""
    return f"--{name.replace('_', '-')}"


def of_fields(error: UserError) -> str:
    """An error's words for the reader of a file, who writes fields ("model.n_ctx") and no options
    ("--model.n-ctx")."""
    return re.sub(r"--([a-z][a-z._-]*)", lambda name: name[1].replace("-", "_"), str(error))


CURES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "free some space",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EACCES: "choose another folder, or change its rights",
    errno.EPERM: "choose another folder, or change its rights",
    errno.EROFS: "choose another folder",
    errno.ENOTDIR: "a file is in the way: remove it, or choose another path",
    errno.EEXIST: "a file is in the way: remove it, or choose another path",
    errno.EMFILE: "close some files, or raise the limit with `ulimit -n`",
}
"""The cure, by the system's number of an error."""


def told(error: OSError) -> str:
    """The system's reason, in its own words."""
    return error.strerror or str(error)


def cure(error: OSError) -> str:
    """A cure for an error of the system."""
    return CURES.get(error.errno or 0, "check the path")


WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a finite number",
    "bool": "true or false",
    "string": "a text in quotes",
    "list": "a list of values",
    "tuple": "a list of values",
    "dict": "an object",
    "dataclass": "an object",
    "model": "an object",
}
"""The right kind of value, by the first word of pydantic's kind of error."""


def first_fault(error: ValidationError) -> str:
    """The first fault of a file, in one line, without pydantic's words: "seed is not a whole
    number"."""
    fault = error.errors(include_url=False, include_input=False)[0]
    kind, context = fault["type"], fault.get("ctx", {})
    if kind == "json_invalid":
        where = re.search(r"line \d+ column \d+", str(context["error"]))
        return where[0] if where else "too deep, or too long a number"
    name = ".".join(map(str, fault["loc"])) or "it"
    if kind == "missing":
        return f"{name} is missing"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"{name} is unknown"
    if kind == "literal_error":
        return f"{name} is none of {', '.join(QUOTED.findall(context['expected']))}"
    if kind in BOUNDS:
        return f"{name} must be {BOUNDS[kind]} {next(iter(context.values()))}"
    return f"{name} is not {WANTED.get(kind.split('_')[0], 'what the lab writes')}"


BOUNDS = {
    "greater_than": "above",
    "greater_than_equal": "at least",
    "less_than": "below",
    "less_than_equal": "at most",
}
"""The bound of a number in words, by pydantic's kind of error."""
QUOTED = re.compile(r"'([^']*)'")
"""A name in pydantic's list of them."""
