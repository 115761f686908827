"""Checks the fields of a configuration, and reads and changes them by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from annotated_types import Interval

from models.errors import UserError

Config = TypeVar("Config", bound=Any)  # a frozen dataclass
Number = int | float

AS_WRITTEN: dict[str, Any] = {"strict": True, "extra": "forbid"}
"""Settings of pydantic for a configuration's file: no value is converted, no field is unknown."""
MOST_SYMBOLS = 10_000
"""The most symbols in a word: the cost of attention grows with the square of this."""


def check_fields(config: object, called: Callable[[str], str] = str) -> None:
    """Raises UserError for a value that is none of the choices of its field, as an edited run.json
    may have, and for a number that is beyond the bounds on its field, infinite or none at all.

    Args:
        called: the name of a field in a message.
    """
    choices, bounds = _limits(cast(Any, type(config)))
    for name, options in choices.items():
        if (value := getattr(config, name)) not in options:
            raise UserError(f"{called(name)} is {value!r}: choose one of {', '.join(options)}")
    for name, (least, most) in bounds.items():
        if (value := getattr(config, name)) is not None:
            check_bounds(called(name), value, least, most)


@cache
def _limits(
    kind: Any,
) -> tuple[Mapping[str, tuple[str, ...]], Mapping[str, tuple[Number, Number]]]:
    """Limits of the fields of a class: the choices, and the least and the largest number."""
    hints = get_type_hints(kind, include_extras=True)
    choices = {name: get_args(hint) for name, hint in hints.items() if get_origin(hint) is Literal}
    bounds = {
        name: (cast(Number, mark.ge), cast(Number, mark.le))
        for name, hint in hints.items()
        for part in (hint, *get_args(hint))  # of "... | None" too
        for mark in getattr(part, "__metadata__", ())
        if isinstance(mark, Interval)
    }
    return choices, bounds


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
    values: dict[str, Any] = {}
    for f in fields(config):
        value = getattr(config, f.name)
        if is_dataclass(value):
            values |= {f"{f.name}.{name}": inner for name, inner in dotted(value).items()}
        else:
            values[f.name] = value
    return values


def changed(config: Config, changes: Mapping[str, Any]) -> Config:
    """A copy of a configuration with other values, given by dotted name.

    Raises:
        UserError: the values do not go together.
    """
    values: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in changes.items():
        part, dot, rest = name.partition(".")
        if dot:
            parts.setdefault(part, {})[rest] = value
        else:
            values[name] = value
    values |= {part: changed(getattr(config, part), inner) for part, inner in parts.items()}
    return replace(config, **values)
