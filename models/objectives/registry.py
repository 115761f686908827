"""All objectives by name. The code of one, and PyTorch, is imported when it is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from models.errors import UserError
from models.objectives.readout import Output

if TYPE_CHECKING:
    from models.objectives.base import Objective
else:
    Objective = Any


@dataclass(frozen=True)
class Entry:
    """An objective, and what must be known of it before its code is imported.

    Attributes:
        path: "module:name" of its class.
        output: what a logit means in a model that is taught this.
        sight: the part of a word that a position may see: what is "before" it, because the
            objective asks what comes next; the "whole" word, because it asks what stands there; or
            "either".
        short: its name in the name of a run.
    """

    path: str
    output: Output = "sigmoid"
    sight: Literal["before", "whole", "either"] = "either"
    short: str = ""


OBJECTIVES = {
    "next-symbols": Entry("models.objectives.next_symbols:NextSymbols", sight="before"),
    "verdict": Entry("models.objectives.verdict:Verdict"),
    "language-model": Entry(
        "models.objectives.language_model:NextToken", "softmax", "before", "lm"
    ),
    "masked": Entry("models.objectives.masked:HiddenSymbols", "masked", "whole", "masked"),
    "sequence-to-sequence": Entry(
        "models.objectives.sequence_to_sequence:NextOfTarget", "conditional", "before"
    ),
    "tags": Entry("models.objectives.tags:Tags", "tags", "whole", "tags"),
}
"""A new objective is an entry here."""


def objective(name: str) -> Objective:
    """The objective of a name. Raises UserError for an unknown one."""
    _check(name)
    return _made(OBJECTIVES[name].path)


@cache
def reading(output: Output) -> Objective:
    """The first objective with this output, which says how its logits are read."""
    return next(objective(name) for name, entry in OBJECTIVES.items() if entry.output == output)


def check_sight(name: str, sees_ahead: bool) -> None:
    """Checks that a model can be taught an objective.

    Raises:
        UserError: the objective is unknown; or it asks what comes next, and the positions of the
            model see ahead; or it asks what stands at a position, and they do not.
    """
    _check(name)
    if OBJECTIVES[name].sight == "whole" and not sees_ahead:
        raise UserError(f"{name} {objective(name).blind}: choose --model.mask bidirectional")
    if OBJECTIVES[name].sight == "before" and sees_ahead:
        names = " or ".join(n for n, entry in OBJECTIVES.items() if entry.sight != "before")
        raise UserError(
            "a bidirectional mask shows every position the symbols that it should predict: "
            f"choose --objective {names}, or a causal mask"
        )


def _check(name: str) -> None:
    if name not in OBJECTIVES:
        raise UserError(f"objective is {name!r}: choose one of {', '.join(OBJECTIVES)}")


@cache
def _made(path: str) -> Objective:
    return resolve_name(path)()
