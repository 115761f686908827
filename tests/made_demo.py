"""Makes the fixture `demo`: python -m tests.made_demo OUT LANGUAGE...

In a process of its own, where shapes are not checked at run time.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from analyses.answers import answer, question
from analyses.command_line.app import main
from analyses.jobs.trained import trained
from analyses.options.inside import Interventions
from analyses.options.training import Emergence
from analyses.options.words import Leaderboard
from analyses.questions.trials import exchanging, prefixes, states
from models.config import TrainConfig
from models.runs.run import Run, run_name
from models.training.recipes import recipe_or_plain

ASKED = {
    "an": ("accuracy",),
    "anbn": ("accuracy", "probing", "heads", "discovery"),
    "anbncn": ("accuracy", "discovery"),
}
"""What the networks beside the demo's own are asked."""
FEW = {
    "emergence": Emergence(words=40, count=2),
    "interventions": Interventions(words=12, pairs=8, rank=2),
    "leaderboard": Leaderboard(2, 6, ("uniform",), samples=16, draws=2),
}
"""The longer questions, of few words."""
FEWER = (
    (prefixes, "WORDS", 40),
    (prefixes, "MOST", 120),
    *((module, "CHOOSE", 8) for module in (exchanging, states)),
    *((module, "SCORE", 16) for module in (exchanging, states)),
)
"""Sizes that no option sets: most of the time went into more of the same."""


def configured(language: str, kind: str) -> TrainConfig:
    """The training of a language. One that counts is exact after 100 steps: 300 will do."""
    config = recipe_or_plain(language, kind)
    return replace(config, steps=300) if config.recipe == "counting" else config


def make(out: Path, *languages: str) -> None:
    """Leaves the finished demo of the Dutch lines in a folder, and other networks beside it."""
    assert main(["demo", "dieren", "--recipe", "counting", "--out", str(out)]) == 0
    with ExitStack() as stack:  # what comes now needs no pictures of its own: pages draw theirs
        for module, name, value in FEWER:
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch("analyses.rendering.render", lambda figure, suffix: b""))
        for language in languages:
            config = configured(language, "counting")
            run = trained(out / run_name(config), config)
            for each in ASKED[language]:
                answer(run, each, question(each).brief)
        for each, options in FEW.items():
            answer(Run(out / "dieren-s0"), each, options)


if __name__ == "__main__":
    make(Path(sys.argv[1]), *sys.argv[2:])
