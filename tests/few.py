"""Questions asked of few words: for pages that show what a question says, whatever it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from analyses.answers import Answer, Progress, Question, arguments_of, question
from analyses.questions.trials import exchanging, prefixes, states
from models.runs.run import Run

FEW: dict[str, dict[str, int]] = {
    "explanations": {"samples": 16, "draws": 2, "steps": 16},
    "perplexity": {"count": 2},
    "vectors": {"sentences": 50, "seeds": 1},
    "senses": {"sentences": 500},
    "sentences": {"words": 40},
    "targets": {"count": 2},
    "steps": {"count": 4},
    "in-context": {"count": 4},
    "induction": {"count": 4},
    "landscape": {"words": 4, "directions": 1},
    "looks": {"count": 4},
    "syntax": {"words": 30},
    "depths": {"count": 2, "deepest": 1},
    "dependencies": {"count": 4},
}
FEWER = (
    (prefixes, "WORDS", 40),
    (prefixes, "MOST", 120),
    *((module, "CHOOSE", 8) for module in (exchanging, states)),
    *((module, "SCORE", 16) for module in (exchanging, states)),
)
"""Sizes that no option sets: most of the time went into more of the same."""


@contextmanager
def fewer(*more: tuple[object, str, object]) -> Iterator[None]:
    """Questions are asked of few words, whatever they are asked with.

    Args:
        more: sizes beside ``FEWER``: the module, the name, the value.
    """
    with ExitStack() as stack:
        for module, name, value in (*FEWER, *more):
            stack.enter_context(patch.object(module, name, value))
        yield


def of_few(name: str) -> Question[Any]:
    """A question whose answer says that it was asked with the options that it was given."""
    asked = question(name)

    def analyse(run: Run, options: Any, told: Progress) -> Answer:
        found = asked.analyse(run, replace(options, **FEW.get(name, {})), told)
        return replace(found, arguments=arguments_of(options))

    return replace(asked, analyse=analyse)
