"""Tables that grow when a longer word is asked for, for several threads at once."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Entry = TypeVar("Entry")

_growing = Lock()
"""One for all tables, outside them, so that a language can still be copied to another process."""


class Recurrence(Generic[Entry]):
    """A sequence in which each entry follows from the one before, computed when first asked for.

    Args:
        first: entry 0.
        after: makes the next entry.
    """

    def __init__(self, first: Entry, after: Callable[[Entry], Entry]) -> None:
        self._known = [first]
        self._after = after

    def up_to(self, last: int) -> list[Entry]:
        """Entries 0 to ``last``, both included."""
        with _growing:
            while len(self._known) <= last:
                self._known.append(self._after(self._known[-1]))
            return self._known[: last + 1]

    def __getitem__(self, index: int) -> Entry:
        return self.up_to(index)[-1]
