"""The CPU time that the networks of a discovery may take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Budget:
    """The CPU seconds of this process, all threads together, since the object was made.

    Nothing is broken off: what would not fit any more is not begun.

    Attributes:
        minutes: the CPU minutes that may be spent.
        dearest: the CPU seconds of the most expensive network so far.
        stopped: a sentence on what was not begun; None as long as nothing was left out.
    """

    minutes: float
    dearest: float = 0.0
    stopped: str | None = None
    begun: float = field(default_factory=time.process_time)

    @property
    def spent(self) -> float:
        """CPU seconds so far."""
        return time.process_time() - self.begun

    @contextmanager
    def network(self) -> Iterator[None]:
        """Notes what a network costs: its training and the search for its rule."""
        before = self.spent
        yield
        self.dearest = max(self.dearest, self.spent - before)

    def ends(self, before: str) -> bool:
        """Would another network, as expensive as the dearest, exceed the budget?

        Args:
            before: the next step, named for the sentence.
        """
        over = self.spent + self.dearest > 60 * self.minutes
        if over and self.stopped is None:
            self.stopped = (
                f"Stopped after {self.spent / 60:.1f} minutes of CPU, before {before}: with more "
                f"than --minutes {self.minutes:g} it goes on."
            )
        return over
