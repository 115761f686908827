"""The loss around the weights: its curvature, and a picture of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import Progress, of_table, quiet, row_numbers
from analyses.charts.theme import figures
from analyses.claims import Claim
from analyses.options.training import Landscape as Options
from analyses.questions.training.held_out import HeldOut, as_function
from interp.statistics import t_interval, weighted_sum
from interp.training.curvature import plane, random_direction, second_derivative, sharpest
from models.base import LanguageModel
from models.runs.run import Run

DIRECTIONS = 10
REACH, POINTS = 1.0, 21
"""The picture goes as far each way as the weights are long, in so many points."""


@dataclass(frozen=True)
class _Curvature:
    """The curvature of the loss at a model's weights.

    Attributes:
        loss: the loss at the weights, in nats per answer.
        mean: second derivative along filter-normalised random directions, mean over directions.
        low, high: its 95% interval over directions (Student's).
        directions: the number of directions.
        largest: the largest second derivative among them.
        sharpest: the largest eigenvalue of the matrix of second derivatives.
    """

    loss: float
    mean: float
    low: float
    high: float
    directions: int
    largest: float
    sharpest: float


def curvature(
    run: Run, model: LanguageModel, held: HeldOut, directions: int = DIRECTIONS, seed: int = 0
) -> _Curvature:
    """The curvature at a model's weights, in float64. The model itself becomes one of float64."""
    loss, weights = as_function(model, held, run)
    generator = torch.Generator().manual_seed(seed)
    bends = [
        second_derivative(loss, weights, random_direction(weights, generator))
        for _ in range(directions)
    ]
    mean = t_interval(np.array(bends))
    return _Curvature(
        float(loss(weights)), *mean, directions, max(bends), sharpest(loss, weights, seed)
    )


def _landscape(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The curvature of the loss at the weights, before and after training, and a plane of it.

    Returns:
        Two rows of kind "curvature": model ("trained", "untrained") and those of ``_Curvature``.
        Then rows of kind "plane": the loss of the trained model along two filter-normalised random
        directions, with a and b, the steps along each, as a multiple of the weights' length.
    """
    held = HeldOut.of(run, options.words, options.seed)
    rows = []
    models = {"trained": run.model(), "untrained": run.untrained()}
    for done, (name, model) in enumerate(models.items()):
        progress(done, 3, name)
        bent = curvature(run, model, held, options.directions, options.seed)
        rows.append({"kind": "curvature", "model": name} | asdict(bent))
    progress(2, 3, "plane")
    loss, weights = as_function(run.model(), held, run)
    generator = torch.Generator().manual_seed(options.seed)
    first, second = (random_direction(weights, generator) for _ in range(2))
    surface = plane(loss, weights, first, second, REACH, POINTS)
    progress(3, 3, "landscape")
    surface = surface.assign(kind="plane", model="trained")
    return pd.concat([pd.DataFrame(rows), surface], ignore_index=True)


def _bends(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the curvature, by model."""
    names = ["model", "loss", "mean", "largest", "sharpest"]
    return table.loc[table["kind"] == "curvature", names]


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The change by training of the curvature along random directions."""
    now, start = table[table["kind"] == "curvature"].to_dict("records")
    ends = ((row["mean"], row["low"], row["high"]) for row in (now, start))
    less = now["mean"] < start["mean"]
    signs = (-1.0, 1.0) if less else (1.0, -1.0)
    return [
        Claim(
            f"Training {'lowered' if less else 'raised'} the curvature of the loss along random "
            "directions by {}",
            *weighted_sum(*zip(signs, ends, strict=True)),
            now["directions"],
            "random directions, filter-normalised",
            "Student's, before and after, put together",
            {"a tenth of the greater one": abs(max(now["mean"], start["mean"], key=abs)) / 10},
            ".3g",
            notes=[
                f"It was {start['mean']:.3g} and is {now['mean']:.3g}; in the sharpest direction "
                f"{start['sharpest']:.3g} and {now['sharpest']:.3g} (second derivatives, in nats)."
            ],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """The loss on the plane; the weights of the run stand in the middle."""
    step = 2 * REACH / (POINTS - 1)
    shown = table[table["kind"] == "plane"]
    ends = shown.assign(a2=shown["a"] + step, b2=shown["b"] + step)
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


QUESTION = of_table(
    "landscape",
    Options,
    _landscape,
    _claims,
    lambda table: row_numbers(_bends(table).melt("model"), "{variable}"),
    _chart,
    _bends,
    needs=("gradients",),
    of_inside=False,
)
