"""How curved is the loss around the weights, and what does it look like there?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Progress, quiet
from analyses.charts.theme import figures
from analyses.measures.held_out import WORDS, HeldOut, as_function, require_gradients
from interp.training.curvature import plane, random_direction, second_derivative, sharpest
from models.base import LanguageModel
from models.runs.run import Run

DIRECTIONS = 10
REACH, POINTS = 1.0, 21
"""The picture goes as far each way as the weights are long, in so many points."""


@dataclass(frozen=True)
class Curvature:
    """The curvature of the loss at a model's weights.

    Attributes:
        loss: there, in nats per answer.
        mean: second derivative along filter-normalised random directions, mean over directions.
        largest: the largest of them.
        sharpest: the largest eigenvalue of the matrix of second derivatives.
    """

    loss: float
    mean: float
    largest: float
    sharpest: float


def curvature(
    run: Run, model: LanguageModel, held: HeldOut, directions: int = DIRECTIONS, seed: int = 0
) -> Curvature:
    """The curvature at a model's weights, in float64. The model itself becomes one of float64."""
    loss, weights = as_function(model, held, run)
    generator = torch.Generator().manual_seed(seed)
    bends = [
        second_derivative(loss, weights, random_direction(weights, generator))
        for _ in range(directions)
    ]
    return Curvature(
        float(loss(weights)), float(np.mean(bends)), max(bends), sharpest(loss, weights, seed)
    )


def curvatures(
    runs: Sequence[Run],
    count: int = WORDS,
    directions: int = DIRECTIONS,
    seed: int = 0,
    progress: Progress = quiet,
) -> pd.DataFrame:
    """One row per run and model (trained, untrained): run, model, and those of ``Curvature``.

    Args:
        count: words of the training window.
        directions: along which the loss is bent.
        seed: of words and directions.

    Raises:
        UserError: a model learns by counting.
    """
    rows = []
    for number, run in enumerate(runs):
        require_gradients(run)
        held = HeldOut.of(run, count, seed)
        for done, name in enumerate(("trained", "untrained")):
            progress(2 * number + done, 2 * len(runs), f"{run.name}, {name}")
            model = run.model() if name == "trained" else run.untrained()
            found = curvature(run, model, held, directions, seed)
            rows.append({"run": run.name, "model": name} | asdict(found))
    progress(2 * len(runs), 2 * len(runs), "landscape")
    return pd.DataFrame(rows)


def in_words(table: pd.DataFrame) -> str:
    """What the table says of each run."""
    said = []
    for name, rows in table.groupby("run", sort=False):
        own = rows.set_index("model")
        now, start = own.loc["trained"], own.loc["untrained"]
        said.append(
            f"{name}: the sharpest direction bends the loss by {now['sharpest']:.3g} (untrained "
            f"{start['sharpest']:.3g}), random directions by {now['mean']:.3g} on average "
            f"(untrained {start['mean']:.3g})"
        )
    return f"{'. '.join(said)}. Second derivatives, in nats; random directions filter-normalised."


def surface(run: Run, count: int = WORDS, seed: int = 0) -> pd.DataFrame:
    """The loss on a plane through the weights, along two filter-normalised random directions.

    Columns: a, b (steps along each, as a multiple of the weights' length), loss (nats per answer).

    Raises:
        UserError: the model learns by counting.
    """
    require_gradients(run)
    loss, weights = as_function(run.model(), HeldOut.of(run, count, seed), run)
    generator = torch.Generator().manual_seed(seed)
    first, second = (random_direction(weights, generator) for _ in range(2))
    return plane(loss, weights, first, second, REACH, POINTS)


def chart(table: pd.DataFrame) -> ChartType:
    """The loss on the plane; the weights of the run stand in the middle."""
    step = 2 * REACH / (POINTS - 1)
    ends = table.assign(a2=table["a"] + step, b2=table["b"] + step)
    return (
        alt.Chart(ends)
        .mark_rect()
        .encode(
            x=alt.X("a:Q", title="first random direction").scale(nice=False),
            x2="a2:Q",
            y=alt.Y("b:Q", title="second random direction").scale(nice=False),
            y2="b2:Q",
            color=alt.Color("loss:Q", title="loss (nats)").scale(type="log", scheme="viridis"),
            tooltip=figures("a", "b", "loss"),
        )
        .properties(width=300, height=300)
    )
