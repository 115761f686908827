"""Packages whose ``__init__`` waits until it is needed.

What models need of TransformerLens stands in modules that import nothing but PyTorch. Its
``__init__`` passes their names on, but it also imports transformers, datasets and pytest. That
takes longer than PyTorch itself, each time that a command or a process begins. networkx, which
comes with automata, takes longer than the help of a command.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, resolve_name
from inspect import getsource
from threading import RLock
from types import ModuleType
from typing import Any

_RUNNING = RLock()
"""Held while an ``__init__`` is run."""


def delay(*packages: str) -> None:
    """Has packages run their ``__init__`` late: a name that it imports is fetched from where it
    comes from, and only another name runs it. A package that was imported before is left alone."""
    for name in packages:
        if name not in sys.modules and (spec := find_spec(name)):
            module = module_from_spec(spec)
            module.__class__ = _Delayed
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                vars(sys.modules[parent])[child] = module


class _Delayed(ModuleType):
    """A package whose ``__init__`` was not run yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks whether it has one, of any module
            raise AttributeError(f"{self.__name__} has no {name}")
        if name not in (imported := _imported(self)):
            return _run(self, name)
        source, original = imported[name]
        if source == self.__name__:
            return import_module(f"{source}.{original}")
        value = getattr(import_module(source), original)
        vars(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Python sets a module on its package once it is imported. If the ``__init__`` imports a
        name from a module that is called alike, it is the name that stays."""
        if _imported(self).get(name) == (f"{self.__name__}.{name}", name):
            value = getattr(value, name)
        super().__setattr__(name, value)


class _Running(ModuleType):
    """A package whose ``__init__`` is being run. Other threads wait for what it makes."""

    def __getattr__(self, name: str) -> Any:
        with _RUNNING:
            if type(self) is not _Running:
                return getattr(self, name)
        raise AttributeError(f"{self.__name__} has not made {name} yet")


def _run(package: ModuleType, name: str) -> Any:
    """A name that a package makes itself. Where its ``__init__`` fails, it stays delayed."""
    with _RUNNING:
        if type(package) is _Delayed:
            module: Any = package
            module.__class__ = _Running
            try:
                module.__spec__.loader.exec_module(module)
            except BaseException:
                module.__class__ = _Delayed
                raise
            module.__class__ = ModuleType
    return getattr(package, name)


@cache
def _imported(package: ModuleType) -> dict[str, tuple[str, str]]:
    """The names that an ``__init__`` imports from elsewhere: the module, and their name there."""
    made = dict[str, tuple[str, str]]()
    for line in ast.parse(getsource(package)).body:
        if isinstance(line, ast.ImportFrom):
            source = resolve_name("." * line.level + (line.module or ""), package.__name__)
            made |= {alias.asname or alias.name: (source, alias.name) for alias in line.names}
    return made
