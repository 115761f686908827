"""What every configuration asks of its fields, and how one is read and changed by dotted name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, get_args

from models.errors import UserError

Config = TypeVar("Config", bound=Any)  # a frozen dataclass
Number = int | float

AS_WRITTEN: dict[str, Any] = {"strict": True, "extra": "forbid"}
"""How pydantic reads a configuration from a file: no value is converted, no field is unknown."""
MOST_SYMBOLS = 10_000
"""The most symbols in a word: the cost of attention grows with the square of this."""


def check_choices(config: object, **choices: Any) -> None:
    """Raises UserError if a field holds a value that it cannot have, as an edited run.json may."""
    for name, kind in choices.items():
        value = getattr(config, name)
        if value not in get_args(kind):
            raise UserError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")


def check_numbers(config: Config, bounds: Mapping[str, tuple[Number, Number]]) -> None:
    """Raises UserError for a number beyond its bounds, infinite or none at all."""
    for name, (least, most) in bounds.items():
        check_bounds(name, getattr(config, name), least, most)


def check_bounds(name: str, value: Number, least: Number, most: Number) -> None:
    """Raises UserError for a value that is not within its bounds, and for "nan"."""
    if value < least:
        raise UserError(f"{name} is {_short(value)}: it must be at least {least}")
    if not value <= most:
        raise UserError(f"{name} is {_short(value)}: it must be at most {most}")


def _short(value: Number) -> str:
    """A number as it is written; one of many digits is cut."""
    return str(value) if isinstance(value, float) or abs(value) < 10**40 else "too long"


def dotted(config: Any) -> dict[str, Any]:
    """The values of a configuration by dotted name, such as "model.counting.counters".

    For the class of a configuration it gives the defaults.
    """
    found: dict[str, Any] = {}
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            found |= {f"{f.name}.{name}": inner for name, inner in dotted(value).items()}
        else:
            found[f.name] = value
    return found


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of a configuration with other values, given by dotted name.

    Raises:
        UserError: the values do not go together.
    """
    own: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        part, dot, rest = name.partition(".")
        if dot:
            parts.setdefault(part, {})[rest] = value
        else:
            own[name] = value
    own |= {part: changed(getattr(config, part), inner) for part, inner in parts.items()}
    return replace(config, **own)
