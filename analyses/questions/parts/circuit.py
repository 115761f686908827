"""A circuit on one word: what the circuit alone says of the word, and what all other edges say."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import torch

from analyses.words import counterfactuals
from interp.causal.metrics import logit_at
from interp.circuits.circuits import Ablation, Bench
from interp.circuits.effects import Direction, edge_effects
from interp.circuits.graph import Edge
from models.languages import END_ID, Word
from models.runs.run import Run
from models.transformer.model import HookedTransformer

PAIRS = 16
"""Counterfactuals of the word, at the most."""

RUNS = ("the whole model", "the circuit alone", "all other edges", "its counterfactuals")


def verdicts(
    model: HookedTransformer,
    run: Run,
    edges: Sequence[Sequence[str]],
    ablation: Ablation,
    direction: Direction,
    word: Word,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The verdicts of parts of the model on the word, and the effect of each edge alone.

    An edge that is left out carries an activation that ``ablation`` takes from the word's
    counterfactuals.

    Args:
        direction: the direction of the edges' effects (``interp.circuits.effects``).

    Returns:
        One row per run (``RUNS``): run, logit (END's, the mean over the counterfactuals), accepted
        (for how many counterfactuals END's logit is above 0) and pairs (how many counterfactuals
        there are); and one row per edge: sender, receiver, exact (its effect; NaN where the model
        tells nothing apart).

    Raises:
        UserError: the word has no counterfactual.
    """
    others = counterfactuals(run.language, word, PAIRS, 0)
    vocabulary = run.language.vocabulary
    clean = torch.as_tensor(vocabulary.words([word] * len(others)).tokens)
    corrupted = torch.as_tensor(vocabulary.words(others).tokens)
    read = logit_at(END_ID, model.verdict_positions(torch.full((len(others),), len(word))))
    bench = Bench(model, clean, corrupted, read, ablation)
    circuit = {Edge(*edge) for edge in edges}
    inside = torch.tensor([edge in circuit for edge in bench.graph.edges])
    everything = torch.ones_like(inside)
    outputs = [*bench.measure(torch.stack([everything, inside, ~inside]))]
    with torch.inference_mode():
        outputs.append(read(model(corrupted)))
    table = pd.DataFrame(
        {
            "run": RUNS,
            "logit": [float(logits.mean()) for logits in outputs],
            "accepted": [int((logits > 0).sum()) for logits in outputs],
            "pairs": len(others),
        }
    )
    effects = edge_effects(model, clean, corrupted, read, ["exact"], [direction])
    means = effects.groupby(["sender", "receiver"], sort=False)["effect"].mean()
    return table, means.rename("exact").reset_index()
