"""The stand-in for the answer of a job that has none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Failed:
    """A job without an answer: the reason, in one line."""

    reason: str
