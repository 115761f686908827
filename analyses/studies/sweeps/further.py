"""The further measures of a sweep's runs, beside how far they are right: a few numbers each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from analyses.answers import Answer, Answers, save
from analyses.questions.training.gradients import EARLY, by_layer, nearest, ratio
from analyses.questions.training.held_out import HeldOut
from analyses.questions.training.landscape import curvature as curvature_of
from analyses.questions.training.loss import loss
from analyses.studies.sweeps.of_run.attention import attention
from analyses.studies.sweeps.of_run.cost import cost
from analyses.studies.sweeps.of_run.speed import speed
from models.runs.files import locked
from models.runs.run import Run

Name = Literal["loss", "speed", "gradients", "softmax", "curvature", "drift", "attention", "cost"]
Numbers = Mapping[str, float | None]


@dataclass(frozen=True)
class _Further:
    """A further measure of a run.

    Attributes:
        of: a function for the numbers of a run; it may leave out what a run does not have.
        meaning: the meaning of each of its numbers, by name.
        less: the numbers that are better when they are smaller.
        shares: the numbers that lie between 0 and 1: so do their intervals.
        censored: whether a number may be missing because it is too large to have been seen. It is
            then summed up by a median over all seeds, and settings are not compared by it.
    """

    of: Callable[[Run], Numbers]
    meaning: Mapping[str, str]
    less: frozenset[str] = frozenset()
    shares: frozenset[str] = frozenset()
    censored: bool = False


def _gradients(run: Run) -> Numbers:
    """The gradients of the first and the last layer, at the start and at about step 100."""
    if run.config.model.family.tabular:
        return {}
    steps = {"start": 0, "early": nearest(run.steps(), EARLY)}
    table = by_layer(run, sorted(set(steps.values())))
    numbers: dict[str, float] = {}
    for when, step in steps.items():
        rows = table[table["step"] == step]
        numbers[f"first_{when}"] = float(rows["gradient"].iloc[0])
        numbers[f"last_{when}"] = float(rows["gradient"].iloc[-1])
        numbers[f"ratio_{when}"] = ratio(rows)
    return numbers


def _softmax(run: Run) -> Numbers:
    """Entropy and gradient of the softmax before training, mean over layers."""
    if run.config.model.family.tabular:
        return {}
    rows = by_layer(run, [0])
    return {name: float(rows[name].mean()) for name in ("entropy", "passed")}


def _curvature(run: Run) -> Numbers:
    """The curvature after training, and the largest eigenvalue before it."""
    if run.config.model.family.tabular:
        return {}
    held = HeldOut.of(run)
    end = curvature_of(run, run.model(), held)
    start = curvature_of(run, run.untrained(), held, directions=1)
    return {"mean": end.mean, "largest": end.largest, "sharpest": end.sharpest} | {
        "sharpest_untrained": start.sharpest
    }


def _drift(run: Run) -> Numbers:
    """The drift from checkpoint to checkpoint, mean over checkpoints and layers."""
    if run.config.model.family.tabular:
        return {}
    rows = by_layer(run, run.steps())
    return {name: float(rows[name].mean()) for name in ("mean", "spread")}


FURTHER: Mapping[Name, _Further] = {
    "loss": _Further(
        loss,
        {
            "nats": "held-out loss, nats per answer",
            "entropy": "the least that it can be",
            "excess": "loss above the language's entropy, nats per token",
            "words": "different words in training",
            "compute": "floating-point operations of training",
        },
        less=frozenset({"nats", "excess", "compute"}),
    ),
    "speed": _Further(
        speed,
        {
            "steps": "steps until no mistake is left in the window",
            "seconds": "seconds until then",
        },
        censored=True,
    ),
    "gradients": _Further(
        _gradients,
        {
            "first_start": "gradient of the first layer at step 0",
            "last_start": "gradient of the last layer at step 0",
            "ratio_start": "first layer's gradient over the last layer's, at step 0",
            "first_early": f"gradient of the first layer at about step {EARLY}",
            "last_early": f"gradient of the last layer at about step {EARLY}",
            "ratio_early": f"first layer's gradient over the last layer's, at about step {EARLY}",
        },
    ),
    "softmax": _Further(
        _softmax,
        {
            "entropy": "entropy of attention at step 0; 1 is even",
            "passed": "share of the gradient's norm that passes the softmax at step 0",
        },
        shares=frozenset({"entropy"}),
    ),
    "curvature": _Further(
        _curvature,
        {
            "mean": "second derivative along random directions, mean",
            "largest": "second derivative along random directions, largest",
            "sharpest": "largest eigenvalue of the second derivatives",
            "sharpest_untrained": "the same before training",
        },
        less=frozenset({"mean", "largest", "sharpest"}),
    ),
    "drift": _Further(
        _drift,
        {
            "mean": "how far the mean activation moves between checkpoints, in spreads",
            "spread": "by how much their spread changes between checkpoints",
        },
        less=frozenset({"mean", "spread"}),
    ),
    "attention": _Further(
        attention,
        {
            "members": "how well attention ranks the symbols that decide, in members, AUROC",
            "members_untrained": "the same before training",
            "members_chance": "the same of random values",
            "others": "how well attention ranks the symbols that decide, in other words, AUROC",
            "others_untrained": "the same before training",
            "others_chance": "the same of random values",
        },
        shares=frozenset({"members", "members_untrained", "others", "others_untrained"}),
    ),
    "cost": _Further(
        cost,
        {
            "operations": "floating-point operations of 32 words of 64 symbols, products alone",
            "milliseconds": "milliseconds of reading them on the machine that asked",
        },
        less=frozenset({"operations", "milliseconds"}),
    ),
}
"""A new measure is an entry here, and its name is one of ``Name``."""


def columns_of(names: Sequence[Name]) -> list[str]:
    """The columns of measures in a sweep's table: "loss.excess"."""
    return [f"{name}.{part}" for name in names for part in FURTHER[name].meaning]


MEANING = {
    f"{name}.{part}": words for name, of in FURTHER.items() for part, words in of.meaning.items()
}
"""The meaning of each column, in words."""
LESS = [f"{name}.{part}" for name, of in FURTHER.items() for part in of.meaning if part in of.less]
"""The columns whose smaller numbers are better. Settings may be compared by these."""


def is_share(column: str) -> bool:
    """Does a number lie between 0 and 1?"""
    return column.partition(".")[2] in FURTHER[name_of(column)].shares


def name_of(column: str) -> Name:
    """The measure that a column belongs to."""
    return next(name for name in FURTHER if column.startswith(f"{name}."))


def measured(run: Run, names: Sequence[Name]) -> pd.DataFrame:
    """Measures a run, as far as its folder does not hold the numbers yet. One row.

    Columns: ``columns_of``; NaN for what a run does not have, and for what is not finite.
    """
    for name in names:
        with locked(run.results):
            if kept([name], run) is None:
                numbers = {f"{name}.{part}": n for part, n in FURTHER[name].of(run).items()}
                table = pd.DataFrame([numbers], columns=columns_of([name])).astype(float)
                table = table.replace([np.inf, -np.inf], np.nan)
                result = Answer(table, "", {}, {}, run.model_hash())
                save(run.path, f"measure-{name}", f"Which numbers of {name}?", result, None)
    row = kept(names, run)
    assert row is not None
    return row


def kept(names: Sequence[Name], run: Run) -> pd.DataFrame | None:
    """The row of ``measured`` if the run's folder holds all of it."""
    parts = [Answers.of(run, f"measure-{name}").asked({}) for name in names]
    tables = [part.table for part in parts if part is not None]
    if len(tables) < len(parts):
        return None
    return pd.concat([pd.DataFrame(index=[0]), *tables], axis=1)
