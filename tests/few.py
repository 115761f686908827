"""Questions asked of few words: for pages that show what a question says, whatever it says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analyses.answers import Answer, Progress, Question, arguments_of, question
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
    "syntax": {"words": 60},
    "depths": {"count": 8},
    "dependencies": {"count": 8},
}


def of_few(name: str) -> Question[Any]:
    """A question whose answer says that it was asked with the options that it was given."""
    asked = question(name)

    def analyse(run: Run, options: Any, told: Progress) -> Answer:
        found = asked.analyse(run, replace(options, **FEW.get(name, {})), told)
        return replace(found, arguments=arguments_of(options))

    return replace(asked, analyse=analyse)
