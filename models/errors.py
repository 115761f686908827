"""The one exception that means "the user can fix this": the command line prints it as one line."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake outside the program: the message names the fault and the cure, in one line."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist: it names the one that was probably meant.

    Args:
        what: the kind of thing, as "language".
        known: the names that exist.
    """
    known = list(known)
    near = get_close_matches(name, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return UserError(f"unknown {what} {name!r}: {meant}choose one of {', '.join(known)}")
