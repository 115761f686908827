"""The checks of shapes at run time: of each function the first calls in every test.

jaxtyping and beartype check each call of ``models`` and ``interp``. A lens calls the same function
thousands of times with the same shapes, and to check all of them took longer than the tests. What
has no shape in its annotations stays bare: mypy has read it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from functools import cached_property, reduce, wraps
from types import FunctionType, MethodType
from typing import Any

import jaxtyping
from beartype import beartype

CHECKS = 6  # of what goes in, and of what comes out
_made = Counter[tuple[str, str]]()
_muted = list[FunctionType]()


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """For ``--jaxtyping-packages``: beartype, until there were so many checks since ``anew``."""
    name = function.__module__, function.__qualname__
    if _made[name] >= CHECKS:  # a function within one that was called before
        return function
    check = beartype(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _made[name] += 1
        if _made[name] == CHECKS and (owner := named(*name)):
            owner.__no_type_check__ = True
            _muted.append(owner)
        return check(*args, **kwargs)

    return call


_decorate = jaxtyping.jaxtyped


def _jaxtyped(*args: Any, **kwargs: Any) -> Any:
    """``jaxtyping.jaxtyped``, but what has no shapes stays bare, and so does a function within one
    after its checks: it is made at each call of the other one, and to decorate it takes a
    millisecond."""
    made = _decorate(*args, **kwargs)
    if args:
        return made

    def decorated(function: Any) -> Any:
        name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        bare = _made[name] >= CHECKS or not has_shapes(function)
        return function if bare else made(function)

    return decorated


jaxtyping.jaxtyped = _jaxtyped
SHAPE = re.compile(r"\b(Bool|Float|Int|Shaped)\[")


def has_shapes(made: Any) -> bool:
    """Whether the annotations of a function or a class have a shape, or a name for one."""
    texts = [str(hint) for hint in getattr(made, "__annotations__", {}).values()]
    names = {name for text in texts for name in re.findall(r"\b[A-Z]\w*", text)}
    known = vars(sys.modules[made.__module__])
    return any(map(SHAPE.search, [*texts, *(str(known.get(name)) for name in names)]))


def named(module: str, name: str) -> FunctionType | None:
    """The function of this name, which jaxtyping checks; None for one that no name leads to."""
    try:
        found = reduce(getattr, name.split("."), sys.modules[module])
    except (AttributeError, KeyError):
        return None
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, cached_property):
        found = found.func
    elif isinstance(found, MethodType):
        found = found.__func__
    return found if isinstance(found, FunctionType) else None


def anew() -> None:
    """Checks the next calls of every function."""
    _made.clear()
    while _muted:
        _muted.pop().__no_type_check__ = False
