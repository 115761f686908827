"""Where in a word a model's verdict on it is read."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

Readout = Literal["last", "bos"]
"""At the last symbol; or at BOS, the class token of a model that sees the whole word from there."""

Positions = TypeVar("Positions", bound=Any)  # an array or a tensor


def read_at(readout: Readout, lengths: Positions) -> Positions:
    """The position of the verdict on words of so many symbols, [batch]; BOS is position 0."""
    return lengths if readout == "last" else lengths * 0
