"""Which questions there are. No question is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from analyses.options import questions
from models.errors import unknown

BUILT_IN = {
    "accuracy": "How far beyond the training window is the model still right?",
    "probing": "Which hidden variable of the language can be read off which activation?",
    "emergence": "When in training does each hidden variable become readable?",
    "interventions": "Does the model use a hidden variable? "
    "What does it do when the variable is erased, moved or exchanged?",
    "heads": "Which heads does the verdict need, which write it, "
    "and do they look where it matters?",
    "patching": "Which activations carry the difference between a word and its counterfactual?",
    "circuits": "Which parts of the model carry the verdict, what do they read from each other, "
    "and is the rest idle?",
    "explanations": "Which symbols decide according to each method, and which really decide?",
    "leaderboard": "Which explanation method tells the truth about this model, and at what cost?",
    "discovery": "Which rule describes the network's verdicts, and how far can it be trusted?",
}
"""What each question asks.

The question is the object ``QUESTION`` in the module of ``analyses.questions`` with its name. Its
options are the class of its name in ``analyses.options.questions``, or else a class in its module.
"""

OF_PAIRS = {
    "alignment": "Does attention to a source show where each symbol of the target comes from, "
    "and does the source matter there?",
}
"""What is asked of runs on pairs alone."""

GROUP = "structure_lab.questions"
"""Entry points of other packages: ``shortest = "their_package.module:QUESTION"``."""


OWN = BUILT_IN | OF_PAIRS
"""All questions of the lab."""


@cache
def registered() -> Mapping[str, EntryPoint]:
    """Every question of all runs by its name; nothing is imported yet."""
    own = [EntryPoint(name, f"analyses.questions.{name}:QUESTION", GROUP) for name in BUILT_IN]
    others = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    known = {entry.name: entry for entry in own}
    return known | {entry.name: entry for entry in others if entry.name not in known}


def known() -> Mapping[str, EntryPoint]:
    """Every question by its name, those of pairs among them."""
    own = {
        name: EntryPoint(name, f"analyses.questions.{name}:QUESTION", GROUP) for name in OF_PAIRS
    }
    return {**registered(), **own}


def entry(name: str) -> EntryPoint:
    """Where a question lies. Raises UserError for an unknown name."""
    if name not in known():
        raise unknown("question", name, [*known(), "all"])
    return known()[name]


def options_of(name: str) -> type[Any]:
    """The options of a question. Those of the lab's own questions are found without importing the
    work."""
    own = getattr(questions, name.capitalize(), None) if name in OWN else None
    return own or entry(name).load().options
