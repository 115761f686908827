"""Where in a word a model's verdict on it is read."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

Readout = Literal["last", "bos"]
""""last" is the last symbol; "bos" is BOS, the class token, in a model where BOS sees the whole
word."""

Positions = TypeVar("Positions", bound=Any)  # an array or a tensor


def read_at(readout: Readout, lengths: Positions) -> Positions:
    """The position of the verdict on words of these lengths, [batch]; BOS is position 0."""
    return lengths if readout == "last" else lengths * 0
