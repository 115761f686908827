"""How does training go, layer by layer? Gradients, the softmax of attention, and drift."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analyses.answers import Progress, quiet
from analyses.measures.held_out import WORDS, HeldOut, require_gradients
from interp.model import activations
from interp.training.drift import Drift, drift
from interp.training.gradients import gradients_of, norms_by_layer, softmax_by_layer
from models.runs.run import Run

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
        seed: of the words.

    Columns: run, step, layer, gradient (Euclidean norm of the gradient of the layer's weights),
    entropy and passed (of the softmax, as ``interp.training.gradients.Softmax``; NaN without
    attention), mean and spread (how far the activations after the layer moved since the checkpoint
    before, as ``interp.training.drift.Drift``; NaN for the first).

    Raises:
        UserError: the model learns by counting.
    """
    require_gradients(run)
    held = HeldOut.of(run, count, seed)
    tokens, inside = held.batch.tokens, held.inside.numpy()
    rows, before = [], dict[int, np.ndarray]()
    for done, step in enumerate(steps):
        progress(done, len(steps), f"{run.name}, step {step}")
        model = run.model(step)
        norms = norms_by_layer(gradients_of(model, held.loss(model(tokens))))
        softmax = softmax_by_layer(model, tokens, held.loss, held.inside)
        hooks = {layer: f"blocks.{layer}.hook_resid_post" for layer in norms}
        read = activations(model, tokens, [h for h in hooks.values() if h in model.hook_dict])
        for layer, norm in norms.items():
            row = {"run": run.name, "step": step, "layer": layer, "gradient": norm}
            if layer in softmax:
                row |= {"entropy": softmax[layer].entropy, "passed": softmax[layer].passed}
            if hooks[layer] in read:
                x = read[hooks[layer]][inside].double().numpy()
                moved = drift(before[layer], x) if layer in before else Drift(np.nan, np.nan)
                row |= {"mean": moved.mean, "spread": moved.spread}
                before[layer] = x
            rows.append(row)
    progress(len(steps), len(steps), run.name)
    columns = ["run", "step", "layer", "gradient", "entropy", "passed", "mean", "spread"]
    return pd.DataFrame(rows, columns=columns)


def by_layers(
    runs: Sequence[Run], count: int = WORDS, seed: int = 0, progress: Progress = quiet
) -> pd.DataFrame:
    """``by_layer`` of all checkpoints of each run, or of the one that is looked at."""
    tables = [
        by_layer(run, run.steps() if run.seen_at is None else [run.seen_at], count, seed, progress)
        for run in runs
    ]
    return pd.concat(tables, ignore_index=True)


def ratio(rows: pd.DataFrame) -> float:
    """The gradient of the first layer divided by that of the last, at one checkpoint; NaN where
    the last gets none."""
    first, last = map(float, (rows["gradient"].iloc[0], rows["gradient"].iloc[-1]))
    return first / last if last else float("nan")


def nearest(steps: Sequence[int], wanted: int) -> int:
    """The checkpoint that is nearest to a step; the earlier one of two."""
    return min(steps, key=lambda step: (abs(step - wanted), step))


def in_words(table: pd.DataFrame) -> str:
    """What the table says of the start and the end of each run."""
    said = []
    for name, rows in table.groupby("run", sort=False):
        steps = sorted(rows["step"].unique())
        parts = [
            f"at step {step} the first layer gets {ratio(rows[rows['step'] == step]):.3g} times "
            "the gradient of the last"
            for step in dict.fromkeys((steps[0], nearest(steps, EARLY), steps[-1]))
        ]
        said.append(f"{name}: {', '.join(parts)}")
    return f"{'. '.join(said)}."
