"""Which training lines made a run say what it says? An answer that is kept in the run."""

from __future__ import annotations

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from analyses.answers import Answer, Planned, Progress, of_answer, quiet, row_numbers
from analyses.options.training import Influence as Asked
from analyses.questions.training.of_lines.culprits import (
    RANDOM,
    Row,
    can_be_turned,
    removals,
    shortcut_rows,
    turned_rows,
)
from analyses.questions.training.of_lines.drawn import chart, claims, side_by_side
from analyses.questions.training.of_lines.trainings import halves, margins_after
from analyses.questions.training.of_lines.values import Shortcut, margins_of_each, target_words
from analyses.questions.training.of_lines.views import METHODS, Found, Training
from interp.influence.scores import datamodel, lds_interval, predicted
from models.runs.run import Run
from models.training.without_lines import lines_of

HELD_OUT, LDS = "held-out words", "LDS"
DATAMODEL, ANOTHER_SEED = "datamodel", "another seed"
RETRAINED = "retrained"
RANDOM_DRAWS = 20
APART = 1000
"""The number added to a run's seed for the trainings of another seed."""
COLUMNS = ("part", "model", "method", "measure", "value", "low", "high")


def _influence(run: Run, options: Asked, progress: Progress = quiet) -> Answer:
    """Table: one row per part, model, method and measure, with value, low and high (95%; NaN where
    one training tells no spread).

    Part "held-out words", measure "LDS": the rank correlation, over trainings on half of the lines,
    of the log odds of the right answer and of the summed influence of the lines that were there;
    mean over words. Low and high: bootstrap over trainings.
    Part "turned labels", where one verdict a word is taught: the share of turned labels among as
    many lines that a method names. "precision, itself": those that add most to their own
    likelihood. "precision, harm": those that take most from held-out words.
    Part "shortcut", where one verdict a word is taught and some symbols decide nothing: one of them
    is planted in a share of the lines, which become culprits. "precision": their share among as
    many lines that a method names. "reliance": by how much the shortcut raises the log odds of "in"
    for a network that is trained without the named lines.

    Controls: the model "untrained" (the method at the first weights; TracIn as if all training had
    been there), "random", the "loss" of a line, a "datamodel" (regression on other trainings,
    without a look inside), "another seed" (the same trainings from other first weights and in
    another order), the "oracle".

    Raises:
        UserError: the run was fine-tuned.
    """
    words, lines = target_words(run, options.targets), lines_of(run)
    shortcut = Shortcut.of(run, options.culprits, options.seed)
    verdicts = can_be_turned(run)
    steps = [step for step in run.steps() if step <= run.step]
    tally = _Told(
        progress,
        2 * options.subsets
        + len(steps) * (1 + verdicts + bool(shortcut))
        + (removals(2 * len(METHODS)) if shortcut else 0),
    )
    kept = halves(len(lines), options.subsets, options.seed)
    margins = margins_after(run, options, kept, tally)
    other = margins_after(run, options, kept, tally, seed=run.config.seed + APART)
    training = Training(run, steps, [run.model(step) for step in steps], lines, options.seed)
    scores = training.influences(lambda model: margins_of_each(run, model, words), tally.checkpoint)
    rows = _held_out_rows(margins, other, scores, kept, options.seed)
    if verdicts:
        rows += turned_rows(run, options, words, tally.checkpoint)
    if shortcut is not None:
        rows += shortcut_rows(run, options, shortcut, tally.checkpoint, tally)
    table = pd.DataFrame(rows, columns=COLUMNS)
    findings = {"lines": len(lines), "words": len(words), "trainings": len(kept)}
    return Answer(table, findings=findings)


def _held_out_rows(
    margins: Float[np.ndarray, "training target"],
    other: Float[np.ndarray, "training target"],
    influences: Found,
    kept: Bool[np.ndarray, "training line"],
    seed: int,
) -> list[Row]:
    """The linear datamodelling score of each method, and of its controls.

    Args:
        margins: the targets' margins after the trainings on these lines.
        other: the margins with another seed.
    """
    targets = margins.shape[1]
    expected = {key: predicted(matrix[:targets], kept) for key, matrix in influences.items()}
    expected[RETRAINED, DATAMODEL] = datamodel(margins, kept)
    expected[RETRAINED, ANOTHER_SEED] = other
    rows: list[Row] = [
        (HELD_OUT, model, method, LDS, *lds_interval(margins, sums, seed=seed))
        for (model, method), sums in expected.items()
    ]
    rng = np.random.default_rng([seed, 4])
    drawn = rng.standard_normal((RANDOM_DRAWS * targets, kept.shape[1]))
    often = np.tile(margins, RANDOM_DRAWS)
    chance = lds_interval(often, predicted(drawn, kept), seed=seed)
    return [*rows, (HELD_OUT, RANDOM, RANDOM, LDS, *chance)]


class _Told:
    """Progress over trainings and checkpoints, as one count."""

    def __init__(self, progress: Progress, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, what: str) -> None:
        """One more is done."""
        self.done += 1
        self.progress(self.done, self.total, what)

    def checkpoint(self, done: int, total: int, what: str) -> None:
        """Another checkpoint is read."""
        self(what)


QUESTION = of_answer(
    "influence",
    Asked,
    _influence,
    lambda answer: row_numbers(answer.table, "{part}, {measure}", "{method}, {model}"),
    lambda answer: chart(answer.table),
    lambda answer: claims(answer.table, answer.findings),
    needs=("lines", "verdict", "gradients"),
    shown=lambda answer: side_by_side(answer.table),
    planned=tuple(Planned(f"{method}, trained", f"{method}, untrained") for method in METHODS),
)
