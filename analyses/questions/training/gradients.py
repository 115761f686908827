"""Training layer by layer: gradients, the softmax of attention, and drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Progress, numbers, of_table, quiet
from analyses.charts.marks import curve, panels
from analyses.charts.theme import figures
from analyses.claims import Claim
from analyses.needs import require
from analyses.options.training import Gradients as Options
from analyses.questions.training.held_out import WORDS, HeldOut
from interp.model import activations
from interp.training.drift import Drift, drift
from interp.training.gradients import gradients_of, norms_by_layer, softmax_by_layer
from models.runs.run import Run

SCALES: Mapping[str, Literal["log", "linear"]] = {
    "gradient": "log",
    "entropy": "linear",
    "mean": "linear",
}
EARLY = 100
"""The step at which gradients are looked at again; the checkpoint that is nearest to it."""


def by_layer(
    run: Run,
    steps: Sequence[int],
    count: int = WORDS,
    seed: int = 0,
    progress: Progress = quiet,
) -> pd.DataFrame:
    """One row per checkpoint and layer; all read the same words.

    Args:
        steps: the checkpoints, ascending.
        count: words of the training window.
        seed: seed of the sampled words.

    Columns: step, layer, gradient (Euclidean norm of the gradient of the layer's weights),
    entropy and passed (of the softmax, as ``interp.training.gradients.Softmax``; NaN without
    attention), mean and spread (how far the activations after the layer moved since the checkpoint
    before, as ``interp.training.drift.Drift``; NaN for the first).

    Raises:
        UserError: the model learns by counting.
    """
    require(run, "gradients")
    held = HeldOut.of(run, count, seed)
    tokens, inside = held.batch.tokens, held.inside.numpy()
    rows, before = [], dict[int, np.ndarray]()
    for done, step in enumerate(steps):
        progress(done, len(steps), f"step {step}")
        model = run.model(step)
        norms = norms_by_layer(gradients_of(model, held.loss(model(tokens))))
        softmax = softmax_by_layer(model, tokens, held.loss, held.inside)
        hooks = {layer: f"blocks.{layer}.hook_resid_post" for layer in norms}
        read = activations(model, tokens, [h for h in hooks.values() if h in model.hook_dict])
        for layer, norm in norms.items():
            row = {"step": step, "layer": layer, "gradient": norm}
            if layer in softmax:
                row |= {"entropy": softmax[layer].entropy, "passed": softmax[layer].passed}
            if hooks[layer] in read:
                x = read[hooks[layer]][inside].double().numpy()
                moved = drift(before[layer], x) if layer in before else Drift(np.nan, np.nan)
                row |= {"mean": moved.mean, "spread": moved.spread}
                before[layer] = x
            rows.append(row)
    progress(len(steps), len(steps), run.name)
    columns = ["step", "layer", "gradient", "entropy", "passed", "mean", "spread"]
    return pd.DataFrame(rows, columns=columns)


def _gradients(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """``by_layer`` of all checkpoints, or of the one that is looked at."""
    steps = run.steps() if run.seen_at is None else [run.seen_at]
    return by_layer(run, steps, options.words, options.seed, progress)


def ratio(rows: pd.DataFrame) -> float:
    """The gradient of the first layer divided by that of the last, at one checkpoint; NaN where
    the last gets none."""
    first, last = map(float, (rows["gradient"].iloc[0], rows["gradient"].iloc[-1]))
    return first / last if last else float("nan")


def nearest(steps: Sequence[int], wanted: int) -> int:
    """The checkpoint that is nearest to a step; the earlier one of two."""
    return min(steps, key=lambda step: (abs(step - wanted), step))


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The gradient of the first layer beside that of the last, at the end of training."""
    *earlier, last = sorted(table["step"].unique())
    parts = {step: ratio(table[table["step"] == step]) for step in (*earlier, last)}
    before = dict.fromkeys((earlier[0], nearest(earlier, EARLY))) if earlier else {}
    return [
        Claim(
            f"At step {last} the first layer gets {{}} times the gradient of the last",
            parts[last],
            None,
            None,
            1,
            "batch of words",
            controls={f"at step {step}": parts[step] for step in before},
            form=".3g",
            unweighed="One batch has no interval.",
        )
    ]


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: of each layer at the first and the last checkpoint."""
    ends = {"first step": table["step"].min(), "last step": table["step"].max()}
    rows = [
        (f"{name} of layer {row.layer}", when, getattr(row, name))
        for when, step in ends.items()
        for row in table[table["step"] == step].itertuples()
        for name in ("gradient", "entropy", "passed")
    ]
    return numbers(rows)


def _chart(table: pd.DataFrame) -> ChartType:
    """Gradient, entropy of attention and drift of each layer, checkpoint by checkpoint."""
    titles = {
        "gradient": "norm of the gradient",
        "entropy": "entropy of attention; 1 is even",
        "mean": "drift of the mean, in spreads",
    }
    x, color = alt.X("step:Q", title="step"), alt.Color("layer:O", title="layer")
    drawn: dict[str, ChartType] = {}
    for name, title in titles.items():
        if not table[name].isna().all():
            y = alt.Y(f"{name}:Q", title=None).scale(type=SCALES[name])
            tips, above = ["step", "layer", *figures(name)], color.legend(orient="top")
            picture = curve(table, x, y, tips, above, ends=None)
            drawn[title] = picture.properties(width=260, height=200)
    return panels(drawn)


QUESTION = of_table(
    "gradients",
    Options,
    _gradients,
    _claims,
    _headline,
    _chart,
    needs=("gradients",),
    of_inside=False,
    planned=(),
)
