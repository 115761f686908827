"""All objectives by name."""

from __future__ import annotations

from models.errors import UserError
from models.objectives.next_symbols import NextSymbols
from models.objectives.objective import Objective
from models.objectives.verdict import Verdict

OBJECTIVES: dict[str, Objective] = {
    each.name: each
    for each in (
        NextSymbols(),
        Verdict(),
    )
}
"""A new objective is a line here."""


def objective(name: str) -> Objective:
    """The objective of a name. Raises UserError for an unknown one."""
    if name not in OBJECTIVES:
        raise UserError(f"objective is {name!r}: choose one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def check_sight(name: str, sees_ahead: bool) -> None:
    """Raises UserError if a model whose positions see ahead cannot be taught this."""
    if objective(name).causal and sees_ahead:
        others = " or ".join(each.name for each in OBJECTIVES.values() if not each.causal)
        raise UserError(
            "a bidirectional mask shows every position the symbols that it is to foretell: "
            f"choose --objective {others}, or a causal mask"
        )
