"""Limits of the changes to a next-token distribution. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping

from models.errors import UserError

LIMITS: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_k": (0, 10**6),
    "top_p": (0, 1),
    "frequency_penalty": (-100, 100),
    "presence_penalty": (-100, 100),
}


def check(values: Mapping[str, float]) -> None:
    """Raises UserError for a number out of its range."""
    for name, (least, most) in LIMITS.items():
        if not least <= values[name] <= most:  # what is no number fails too
            raise UserError(f"{name} is {values[name]}: it must lie between {least:g} and {most:g}")
    if values["top_p"] == 0:
        raise UserError("top_p is 0: no token would be left; choose a number up to 1")
