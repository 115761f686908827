"""What stands where an answer would, if a job has none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failed:
    """What a job leaves that has no answer: the reason, in one line."""

    reason: str
