"""Interchange: is one direction of an activation all that a variable is there?

Distributed alignment search, DAS (Geiger et al. 2024), by TransformerLens: a direction is trained
so that a word that gets another word's part of the activation along it is answered as if it had
the variable of the other word. DAS can be trained into much (Arora et al. 2024), so the answers
stand beside four controls; an untrained model, asked the same, is the fifth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.model import HookedModel, require_stream
from interp.statistics import bootstrap_mean

if TYPE_CHECKING:
    from transformer_lens.tools.analysis.interchange import DASResult, Intervention

EPOCHS, BATCH, RATE = 10, 48, 0.03
DRAWS = 4  # of random directions

Answers = Callable[[Float[Tensor, "batch d_vocab"]], Float[Tensor, "batch answer"]]
"""The logits of the possible answers, from the logits of all tokens at the position read."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of a base, whose activation is changed, and a source, from which it comes.

    Attributes:
        base, source: tokens; row i of both is a pair.
        base_at, source_at: the position of the activation in each; the base is answered there too.
        target: the right answer of the base, had it the variable of the source: a column of what
            the ``Answers`` return.
    """

    base: Int[Tensor, "pair pos"]
    source: Int[Tensor, "pair source_pos"]
    base_at: Int[Tensor, " pair"]
    source_at: Int[Tensor, " pair"]
    target: Int[Tensor, " pair"]


def all_tokens(logits: Float[Tensor, "batch d_vocab"]) -> Float[Tensor, "batch d_vocab"]:
    """Every token is an answer: a target is a token id."""
    return logits


def allowed_or_not(token: int) -> Answers:
    """Answer 1 where the token's own logit is above 0, else 0: for tokens that are judged alone."""

    def answers(logits: Float[Tensor, "batch d_vocab"]) -> Float[Tensor, "batch two"]:
        logit = logits[:, token]
        return torch.stack([torch.zeros_like(logit), logit], dim=1)

    return answers


def interchange(
    model: HookedModel,
    hook: str,
    fit: Pairs,
    test: Pairs,
    answers: Answers = all_tokens,
    *,
    rank: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """Trains directions at a hook on some pairs, and exchanges along them, and along controls, on
    others.

    Methods: "none"; "DAS", along the trained directions; "placebo", as far, in random directions;
    "random direction", along as many random ones; "whole activation", along all.

    Args:
        model: in evaluation mode; its parameters stay as they are.
        hook: one that is called once in a forward pass, on [batch, pos, d].
        rank: how many directions.
        seed: of the training; the controls have seeds of their own.

    Returns:
        One row per method: method, rank (of what is exchanged), value (the share of the pairs of
        ``test`` that get the target for an answer), low, high (95% bootstrap over pairs), pairs.

    Raises:
        ValueError: the model lacks the hook, or the stream passes by it; it is in training mode.
    """
    from transformer_lens.tools.analysis import interchange as das  # here: it brings every model

    require_stream(model, hook)
    task = _task(model, answers)
    learned = das.fit_das(
        model,
        hook,
        _rows(fit.base, fit.base_at),
        _rows(fit.source, fit.source_at),
        fit.target,
        task,
        rank=rank,
        base_positions=fit.base_at,
        source_positions=fit.source_at,
        epochs=EPOCHS,
        batch_size=BATCH,
        lr=RATE,
        seed=seed,
    )
    sources, base = _rows(test.source, test.source_at), _rows(test.base, test.base_at)
    source = das.collect_activations(model, hook, sources, task, positions=test.source_at)
    rows = []
    for method, (exchanged, steps) in _ways(learned).items():
        right = [
            das.intervened_logits(model, hook, step, base, source, task, positions=test.base_at)
            .argmax(dim=1)
            .eq(test.target)
            for step in steps
        ]
        value, low, high = bootstrap_mean(torch.stack(right).double().mean(dim=0).numpy())
        numbers = {"value": float(value), "low": float(low), "high": float(high)}
        rows.append({"method": method, "rank": exchanged, **numbers, "pairs": len(base)})
    return pd.DataFrame(rows)


def _rows(tokens: Int[Tensor, "pair pos"], at: Int[Tensor, " pair"]) -> Int[Tensor, "pair pos_at"]:
    """TransformerLens hands a task its inputs alone, so that each brings its position with it."""
    return torch.cat([tokens, at[:, None].to(tokens)], dim=1)


def _task(model: HookedModel, answers: Answers) -> Callable[[Tensor], Tensor]:
    def task(rows: Int[Tensor, "batch pos_at"]) -> Float[Tensor, "batch answer"]:
        return answers(model(rows[:, :-1])[torch.arange(len(rows)), rows[:, -1]])

    return task


def _ways(learned: DASResult) -> Mapping[str, tuple[int, list[Intervention]]]:
    """By method the rank of what is exchanged, and the interventions whose mean is taken."""
    from transformer_lens.tools.analysis import interchange as das

    d, rank = learned.basis.shape
    step = das.SubspaceInterchange(learned.basis)
    bases = [das.random_basis(d, rank, seed) for seed in range(DRAWS)]
    return {
        "none": (0, [das.SubspaceInterchange(learned.basis, 0.0)]),
        "DAS": (rank, [step]),
        "placebo": (rank, [das.NormMatchedPlacebo(step, basis) for basis in bases]),
        "random direction": (rank, [das.SubspaceInterchange(basis) for basis in bases]),
        "whole activation": (d, [das.SubspaceInterchange(torch.eye(d))]),
    }
