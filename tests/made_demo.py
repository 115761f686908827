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
from analyses.questions.parts import circuits
from analyses.questions.rule import discovery
from interp.automata import induction
from interp.automata.passive import merging
from interp.circuits import effects
from interp.probing import probes
from models.config import TrainConfig
from models.runs.run import Run, run_name
from models.training.recipes import recipe_or_plain
from tests.few import fewer

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
SHORTER = (
    (circuits, "LONGEST", 8),
    (circuits, "RANDOM_DRAWS", 4),
    (circuits, "RANDOM_RANKINGS", 1),
    (effects, "MOST_STEPS", 20),
    (merging, "ORDERS", 2),
    (merging, "TRIED", 1),
    (induction, "LIKE_MERGES", 3000),
    (induction, "ROUNDS", 1),
    (probes, "MOST_OF_MLP", 200),
)
"""Sizes that no option sets, and that no page tells of: most of the time went into more of the
same."""
BESIDE = ((discovery, "MOST_LINES", 1000),)
"""More of these, for the networks of other languages and for the longer questions."""


def configured(language: str, kind: str) -> TrainConfig:
    """The training of a language. One that counts is exact after 100 steps: 300 will do."""
    config = recipe_or_plain(language, kind)
    return replace(config, steps=300) if config.recipe == "counting" else config


def make(out: Path, *languages: str) -> None:
    """Leaves the finished demo of the Dutch lines in a folder, and other networks beside it."""
    with ExitStack() as stack:
        stack.enter_context(fewer(*SHORTER))
        stack.enter_context(patch.dict(probes.MOST, {"count": 1000, "category": 300}))
        assert main(["demo", "dieren", "--recipe", "counting", "--out", str(out)]) == 0
        # What comes now needs no pictures of its own: pages draw theirs.
        stack.enter_context(fewer(*BESIDE))
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
