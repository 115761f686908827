"""Lines that are known to have done it: turned labels, and those that teach a shortcut."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool

from analyses.answers import Progress
from analyses.options.training import Influence
from analyses.questions.training.of_lines.trainings import reliance_after
from analyses.questions.training.of_lines.values import Shortcut, losses, margins_of_each
from analyses.questions.training.of_lines.views import COSINE, Training
from interp.influence.scores import precision_at
from interp.statistics import t_interval
from models.languages import Words
from models.languages.disfluencies import said_and_meant, with_labels
from models.runs.run import Run
from models.training.without_lines import lines_of, trained_again

Row = tuple[str, str, str, str, float, float, float]
"""part, model, method, measure, value, low, high"""

TURNED, SHORTCUT = "turned labels", "shortcut"
ITSELF, HARM = "precision, itself", "precision, harm"
PRECISION, RELIANCE = "precision", "reliance"
RANDOM, ORACLE, ALL_KEPT, LOSS = "random", "oracle", "none left out", "loss"
NONE = float("nan")
DRAWS = 5
"""Trainings without random lines."""


def can_be_turned(run: Run) -> bool:
    """Is one label a word all that is taught?"""
    return run.objective.verdict_alone


def turned_rows(run: Run, options: Influence, words: Words, told: Progress) -> list[Row]:
    """A share of the labels is turned around, and the run is trained once more. Who finds them?"""
    lines = lines_of(run)
    text, labels = said_and_meant(lines, run.language)
    count = max(1, round(options.culprits * len(lines)))
    flips = np.zeros(len(lines), dtype=bool)
    flips[np.random.default_rng([options.seed, 2]).permutation(len(lines))[:count]] = True
    training = _trained_on(run, options, with_labels(text, labels ^ flips, run.language.vocabulary))
    influences = training.influences(lambda model: margins_of_each(run, model, words), told)
    rows = []
    for (model, method), influence in influences.items():
        named = {ITSELF: np.diag(influence[len(words) :]), HARM: -influence[: len(words)].mean(0)}
        rows += [
            (TURNED, model, method, measure, precision_at(scores, flips, count), NONE, NONE)
            for measure, scores in named.items()
            if (method, measure) != (COSINE, ITSELF)  # that of a line with itself is 1
        ]
    with torch.no_grad():
        lost = losses(run, training.models[-1], training.lines).numpy()
    shown = (TURNED, "trained", LOSS, ITSELF, precision_at(lost, flips, count), NONE, NONE)
    return [*rows, shown, (TURNED, RANDOM, RANDOM, ITSELF, count / len(lines), NONE, NONE)]


def _trained_on(run: Run, options: Influence, lines: Words) -> Training:
    """The run's training, on other lines."""
    steps = [step for step in run.steps() if step <= run.step]
    everything = np.ones(len(lines), dtype=bool)
    models = trained_again(run, everything, steps, lines, device=options.device)
    return Training(run, steps, [model.cpu() for model in models], lines, options.seed)


def shortcut_rows(
    run: Run,
    options: Influence,
    shortcut: Shortcut,
    told: Progress,
    trained: Callable[[str], None],
) -> list[Row]:
    """A shortcut is planted in a share of the lines, and the run is trained on these. Which lines
    made it lean on the shortcut? And does it lean without them?

    Args:
        told: called at each checkpoint.
        trained: called after each further training.
    """
    culprits = shortcut.culprits
    count, rng = int(culprits.sum()), np.random.default_rng([options.seed, 3])
    training = _trained_on(run, options, shortcut.lines)
    influences = training.influences(lambda model: iter([shortcut.reliance(run, model)]), told)
    named = {key: matrix[0] for key, matrix in influences.items()}
    drawn = [rng.random(len(culprits)) for _ in range(DRAWS)]
    scores = [*named.values(), culprits.astype(float), *drawn]
    left = np.stack([~_first(row, count) for row in scores] + [np.ones_like(culprits)])
    leans = reliance_after(run, options, left, trained)
    rows: list[Row] = []
    for (model, method), score, reliance in zip(named, named.values(), leans, strict=False):
        right = precision_at(score, culprits, count)
        rows += [
            (SHORTCUT, model, method, PRECISION, right, NONE, NONE),
            (SHORTCUT, model, method, RELIANCE, float(reliance), NONE, NONE),
        ]
    controls = leans[len(named) :]
    return [
        *rows,
        (SHORTCUT, ORACLE, ORACLE, PRECISION, 1.0, NONE, NONE),
        (SHORTCUT, ORACLE, ORACLE, RELIANCE, float(controls[0]), NONE, NONE),
        (SHORTCUT, RANDOM, RANDOM, PRECISION, count / len(culprits), NONE, NONE),
        (SHORTCUT, RANDOM, RANDOM, RELIANCE, *t_interval(controls[1:-1])),
        (SHORTCUT, "trained", ALL_KEPT, RELIANCE, float(controls[-1]), NONE, NONE),
    ]


def removals(methods: int) -> int:
    """The number of trainings that ``shortcut_rows`` takes."""
    return methods + DRAWS + 2


def _first(scores: np.ndarray, count: int) -> Bool[np.ndarray, " line"]:
    """The lines with the highest scores; of equal ones those that come first."""
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[:count]] = True
    return chosen
