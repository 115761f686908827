"""The guided tours: stops on the real pages. Each says what to do there and what to see."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter


@dataclass(frozen=True)
class Stop:
    """A stop of a tour.

    Attributes:
        page: its address.
        title: its title, in a few words.
        do: the reader's task here.
        see: the point to notice here.
        shown: the choices of the page that its link makes.
    """

    page: str
    title: str
    do: str
    see: str
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tour:
    """A tour.

    Attributes:
        title: the readers for whom it is.
        about: its subject, and the time that it takes.
        dutch: it is about a network that learned the Dutch lines.
        stops: its stops, in their order.
    """

    title: str
    about: str
    dutch: bool
    stops: Sequence[Stop]


TOURS = TypeAdapter(Mapping[str, Tour]).validate_python(
    tomllib.loads(Path(__file__).with_name("tours.toml").read_text(encoding="utf-8"))
)
"""Every tour by its name in a link."""
