"""Which questions there are. Nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from analyses.options import questions
from models.errors import unknown

BUILT_IN = {
    "accuracy": "How far beyond the training window does the model hold?",
    "probing": "Which hidden variable of the language can be read off which activation?",
    "emergence": "When in training does each hidden variable become readable?",
    "interventions": "Is a hidden variable used? "
    "Erasing, moving, exchanging it: what does the model do then?",
    "heads": "Which heads does the verdict need, which write it, "
    "and do they look where it matters?",
    "patching": "Which activations carry what tells a word from its counterfactual?",
    "circuits": "Which parts, reading what of each other, carry the verdict, and is the rest idle?",
    "explanations": "Which symbols decide, says each method, and which do decide?",
    "leaderboard": "Which explanation method tells the truth about this model, and at what cost?",
    "discovery": "Which rule describes the network's verdicts, and how far is it to be trusted?",
}
"""What each asks.

It is ``QUESTION`` in the module of ``analyses.questions`` that bears its name. Its options are the
class of that name in ``analyses.options.questions``, or stand beside it.
"""

GROUP = "structure_lab.questions"
"""Entry points of other packages: ``shortest = "their_package.module:QUESTION"``."""


@cache
def registered() -> Mapping[str, EntryPoint]:
    """Every question by its name; nothing is imported yet."""
    own = [EntryPoint(name, f"analyses.questions.{name}:QUESTION", GROUP) for name in BUILT_IN]
    others = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    known = {entry.name: entry for entry in own}
    return known | {entry.name: entry for entry in others if entry.name not in known}


def entry(name: str) -> EntryPoint:
    """Where a question lies. Raises UserError for an unknown name."""
    if name not in registered():
        raise unknown("question", name, [*registered(), "all"])
    return registered()[name]


def options_of(name: str) -> type[Any]:
    """The options of a question; of one that the lab brings along without importing its work."""
    own = getattr(questions, name.capitalize(), None) if name in BUILT_IN else None
    return own or entry(name).load().options
