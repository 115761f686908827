"""All objectives by name. The code of one, and PyTorch, is imported when it is asked for."""

from __future__ import annotations

from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from models.errors import UserError
from models.objectives.readout import Output

if TYPE_CHECKING:
    from models.objectives.base import Objective
else:
    Objective = Any

OBJECTIVES = {
    "next-symbols": "models.objectives.next_symbols:NextSymbols",
    "verdict": "models.objectives.verdict:Verdict",
    "language-model": "models.objectives.language_model:NextToken",
    "masked": "models.objectives.masked:HiddenSymbols",
    "sequence-to-sequence": "models.objectives.sequence_to_sequence:NextOfTarget",
    "tags": "models.objectives.tags:Tags",
}
"""A new objective is a line here."""
SOFTMAX: dict[str, Output] = {
    "language-model": "softmax",
    "masked": "masked",
    "tags": "tags",
    "sequence-to-sequence": "conditional",
}
"""Those that ask for one distribution over all tokens; the others judge each token by itself."""


def objective(name: str) -> Objective:
    """The objective of a name. Raises UserError for an unknown one."""
    _check(name)
    return _made(OBJECTIVES[name])


def output_of(name: str) -> Output:
    """What a logit means in a model that is taught this."""
    return SOFTMAX.get(name, "sigmoid")


def check_sight(name: str, sees_ahead: bool) -> None:
    """Checks that a model can be taught an objective.

    Raises:
        UserError: the objective is unknown; or it asks what comes next, and the positions of the
            model see ahead; or it hides symbols or tags them, and they do not.
    """
    _check(name)
    if output_of(name) == "tags" and not sees_ahead:
        raise UserError(
            f"{name} are asked for given the whole source, and a causal mask does not show what "
            "comes later: choose --model.mask bidirectional"
        )
    if output_of(name) == "masked" and not sees_ahead:
        raise UserError(
            f"{name} asks for a hidden symbol, given all others, and a causal mask does not show "
            "those that come after it: choose --model.mask bidirectional"
        )
    if sees_ahead and objective(name).causal:
        others = " or ".join(each for each in OBJECTIVES if not objective(each).causal)
        raise UserError(
            "a bidirectional mask shows every position the symbols that it should predict: "
            f"choose --objective {others}, or a causal mask"
        )


def _check(name: str) -> None:
    if name not in OBJECTIVES:
        raise UserError(f"objective is {name!r}: choose one of {', '.join(OBJECTIVES)}")


@cache
def _made(path: str) -> Objective:
    return resolve_name(path)()
