"""Interchange: does a single direction of an activation hold a variable?

Distributed alignment search, DAS (Geiger et al. 2024), in TransformerLens' version, trains a
direction. A word, the base, gets the part of another word's activation along this direction. If the
direction holds the variable, the model then answers as if the base had the other word's value of
it. DAS finds effects in untrained models too (Arora et al. 2024). So its answers stand beside four
controls; an untrained model, asked the same, is the fifth.
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
    """Pairs of a base, whose activation is changed, and a source, from which the change comes.

    Attributes:
        base, source: token ids with BOS; row i of both is a pair.
        base_at, source_at: the position of the activation in each. The base's answer is read at
            ``base_at`` too.
        target: the answer that would be right if the base had the source's value of the variable,
            as the number of a column of what the ``Answers`` return.
    """

    base: Int[Tensor, "pair pos"]
    source: Int[Tensor, "pair source_pos"]
    base_at: Int[Tensor, " pair"]
    source_at: Int[Tensor, " pair"]
    target: Int[Tensor, " pair"]


def all_tokens(logits: Float[Tensor, "batch d_vocab"]) -> Float[Tensor, "batch d_vocab"]:
    """The ``Answers`` in which every token is an answer, so that a target is a token id."""
    return logits


def allowed_or_not(token: int) -> Answers:
    """The ``Answers`` 1 (the token's logit is above 0) and 0, for tokens that are judged alone."""

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
    """Trains directions at a hook on some pairs, and tests them and the controls on other pairs.

    The methods are "none" (nothing is exchanged), "DAS" (the base gets the source's part along the
    trained directions), "placebo" (the activation moves as far as with DAS, but in random
    directions), "random direction" (exchange along as many random directions), and "whole
    activation" (everything is exchanged).

    Args:
        model: in evaluation mode; its parameters stay as they are.
        hook: one that is called once in a forward pass, on [batch, pos, d].
        fit: the pairs on which directions are trained.
        test: the pairs on which all methods are tested.
        answers: what counts as an answer.
        rank: how many directions.
        seed: of the training; the controls have seeds of their own.

    Returns:
        One row per method: method, rank (how many directions are exchanged), value (the share of
        the pairs of ``test`` whose answer is the target), low, high (95% bootstrap over pairs),
        pairs.

    Raises:
        ValueError: the model lacks the hook or is in training mode, or a change at the hook would
            not stay in the stream.
    """
    # Imported here, because it imports every model of TransformerLens.
    from transformer_lens.tools.analysis import interchange as das

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
            .cpu()
            .eq(test.target.cpu())
            for step in steps
        ]
        value, low, high = bootstrap_mean(torch.stack(right).double().mean(dim=0).numpy())
        numbers = {"value": float(value), "low": float(low), "high": float(high)}
        rows.append({"method": method, "rank": exchanged, **numbers, "pairs": len(base)})
    return pd.DataFrame(rows)


def _rows(tokens: Int[Tensor, "pair pos"], at: Int[Tensor, " pair"]) -> Int[Tensor, "pair pos_at"]:
    """Tokens with their position as the last column: TransformerLens gives a task nothing else."""
    return torch.cat([tokens, at[:, None].to(tokens)], dim=1)


def _task(model: HookedModel, answers: Answers) -> Callable[[Tensor], Tensor]:
    def task(rows: Int[Tensor, "batch pos_at"]) -> Float[Tensor, "batch answer"]:
        return answers(
            model(rows[:, :-1])[torch.arange(len(rows), device=rows.device), rows[:, -1]]
        )

    return task


def _ways(learned: DASResult) -> Mapping[str, tuple[int, list[Intervention]]]:
    """By method, the number of directions exchanged and the interventions whose mean is taken."""
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
