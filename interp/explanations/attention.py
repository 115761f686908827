"""Explanations by attention: how much of each symbol reaches the verdict, or writes towards it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor

from interp.explanations.case import Case, Values
from interp.heads import rollout_and_flow
from interp.heads.attention import attention
from interp.heads.logit_attribution import direct_by_position
from interp.heads.weighted_sum import is_a_sum, weights_and_candidates
from interp.model import ReadableModel, has_residual, is_readable, require


def last_layer(case: Case) -> Values:
    """The mean attention of the last layer's heads from where the verdict is read, 0 to 1."""
    return _by_symbol(_patterns(case)[-1].mean(dim=0)[case.at])


def rollout(case: Case) -> Values:
    """Attention multiplied through all layers: how much of each symbol arrives, 0 to 1."""
    return _by_symbol(rollout_and_flow.rollout(_patterns(case), has_residual(case.model))[case.at])


def flow(case: Case) -> Values:
    """The largest flow that attention lets through from each symbol, 0 to 1."""
    return _by_symbol(rollout_and_flow.flow(_patterns(case), case.at, has_residual(case.model)))


def direct(case: Case) -> Values:
    """The part of each symbol in the verdict's logit, by attention alone; positive raises it.

    Raises ValueError for a case with a softmax: its verdict depends on all logits, and is no sum.
    """
    require(case.model, ReadableModel)
    assert is_readable(case.model)  # as mypy cannot tell
    if case.softmax:
        raise ValueError(
            "direct logit attribution explains a logit, and the verdict of a softmax depends on "
            "all of them: choose another method"
        )
    return direct_by_position(case.model, case.word, case.at, case.token)[1:]


def gates(case: Case) -> Values:
    """The weight of each symbol in the cells of an LSTM's last layer where the verdict is read, the
    mean over units, 0 to 1: its input gate times all later forget gates (Levy et al. 2018)."""
    assert is_readable(case.model)  # or else it is not offered
    weights, _ = weights_and_candidates(case.model, case.word[None], _last(case))
    return _by_symbol(weights[0, case.at].mean(dim=-1).cpu())


def has_gates(case: Case) -> bool:
    """Can ``gates`` explain this case?"""
    return is_a_sum(case.model, case.word[None], _last(case))


def _last(case: Case) -> int:
    return int(case.model.cfg.n_layers) - 1


def _patterns(case: Case) -> Float[Tensor, "layer head query key"]:
    return attention(case.model, case.word[None])[0][:, 0]


def _by_symbol(values: Float[Tensor, " pos"] | Float[np.ndarray, " pos"]) -> Values:
    """Without BOS."""
    return np.asarray(values, dtype=np.float64)[1:]
