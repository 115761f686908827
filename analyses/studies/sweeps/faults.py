"""The faults of a sweep's file: pydantic's error as one line that names fault and cure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from models.errors import QUOTED, WANTED

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

DEPTH = {"variants": 2, "language": 2}
"""Tables that hold tables: how many parts of an error's place name one of the inner tables."""


def told(error: ErrorDetails, content: Mapping[str, Any], keys: Mapping[str, Iterable[str]]) -> str:
    """One error in plain words: the field, what came, what was expected.

    Args:
        content: the whole file.
        keys: the keys that may be written, by table; "" is the top of the file.
    """
    place = [str(part) for part in error["loc"]]
    top, value = place[0], error["input"]
    depth = DEPTH.get(top, int(top in keys))
    if len(place) <= depth:
        if top == "variants":
            return "variants are tables: write [[variants]] above each"
        return f"{'.'.join(place)} is {value!r}: write it as a table, [{'.'.join(place)}]"
    key = place[depth]
    if top == "variants":
        name = content["variants"][int(place[1])].get("name")
        if key == "name":
            return (
                f"a variant's name is {name!r}: each needs one of letters, digits, _, - and ., "
                "because its runs' folders carry it"
            )
        where = f"in the variant {name}"
    else:
        where = f"in [{'.'.join(place[:depth])}]" if depth else ""
    if not where and error["type"] == "extra_forbidden":
        for table in keys:
            if table and key in keys[table]:
                return f"{key} stands at the top of the file: write it below [{table}]"
    return _of_key(error, key, where, keys[top if depth else ""])


def _of_key(error: ErrorDetails, key: str, where: str, keys: Iterable[str]) -> str:
    """An error of one key of a table; "" is the top of the file."""
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return f"{key} is missing: write it at the top of the file"
    if kind == "extra_forbidden":
        return _unknown(key, value, where or "at the top of the file", list(keys))
    fault = f"{key} {where} is {value!r}" if where else f"{key} is {value!r}"
    context = error.get("ctx", {})
    if kind == "literal_error":
        choices = QUOTED.findall(context["expected"])
        return f"{fault}: choose one of {', '.join(choices)}"
    if kind == "greater_than_equal":
        return f"{fault}: it must be at least {context['ge']}"
    if kind == "less_than_equal":
        return f"{fault}: it must be at most {context['le']}"
    return f"{fault}: write {WANTED.get(kind.split('_')[0], 'another value')}"


def _unknown(key: str, value: Any, where: str, keys: list[str]) -> str:
    """The error for an unknown key, with the key that was probably meant, if one is similar."""
    if key == "model" and isinstance(value, dict):
        return f'{where}: write "model.{next(iter(value), "n_layers")}" in quotes'
    if key == "seed":
        return f"unknown 'seed' {where}: write seeds, how many, at the top of the file"
    near = get_close_matches(key, keys, n=1)
    cure = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(keys)}"
    return f"unknown {key!r} {where}: {cure}"
