"""What a family of models is: one registry entry, which everybody asks instead of its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# A configuration is checked against its family, so that it stands above this file: "Any" here.
ModelConfig = Any


def never(config: ModelConfig) -> bool:
    """For a family that cannot be stacked."""
    return False


def always(config: ModelConfig) -> bool:
    """For a family that can be stacked in every shape."""
    return True


@dataclass(frozen=True)
class Family:
    """A kind of model: its class, and what others need to know of it.

    Attributes:
        name: ``ModelConfig.architecture`` of its models.
        model: the class, or what makes a model of a configuration, a vocabulary and a seed.
        hook_rows: the table of hooks of a configuration, in the order of computation.
        reads: the fields of ``ModelConfig`` that decide what is built, by dotted name. A choice
            that it does not read would be silently lost, so it is refused; other fields go
            unheeded.
        stacks: whether many models of a configuration can be trained as one, that is whether every
            part that has weights has a stacked sibling (``models.training.stacked``).
        attends: whether it has attention heads.
        residual: whether its parts add to a residual stream.
        recurrent: whether a position goes on from the state of the position before it.
        tabular: whether it is a table of counts: it learns without gradients and has no activations
            to change.
        title: what its models are called; None composes that of the choices.
    """

    name: str
    model: Callable[..., Any]
    hook_rows: Callable[[ModelConfig], list[Any]]
    reads: frozenset[str]
    stacks: Callable[[ModelConfig], bool] = never
    attends: bool = False
    residual: bool = False
    recurrent: bool = False
    tabular: bool = False
    title: Callable[[ModelConfig], str] | None = None


FAMILIES: dict[str, Family] = {}
"""By name; ``models.families`` fills it."""


def register(family: Family) -> None:
    """Makes its name a value of ``ModelConfig.architecture``."""
    FAMILIES[family.name] = family
