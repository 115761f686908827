"""What attention says about each symbol: how much it reaches the verdict, or writes towards it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from torch import Tensor

from interp.explanations.case import Case, Values
from interp.heads import rollout_and_flow
from interp.heads.attention import attention
from interp.heads.logit_attribution import direct_by_position
from interp.model import ReadableModel, require


def last_layer(case: Case) -> Values:
    """The mean attention of the last layer's heads from where the verdict is read, 0 to 1."""
    return _by_symbol(_patterns(case)[-1].mean(dim=0)[case.at])


def rollout(case: Case) -> Values:
    """Attention multiplied through all layers: how much of each symbol arrives, 0 to 1."""
    return _by_symbol(rollout_and_flow.rollout(_patterns(case))[case.at])


def flow(case: Case) -> Values:
    """The largest flow that attention lets through from each symbol, 0 to 1."""
    return _by_symbol(rollout_and_flow.flow(_patterns(case), case.at))


def direct(case: Case) -> Values:
    """What each symbol adds to the verdict's logit through attention alone; positive raises it.

    Raises ValueError for a case with a softmax: its verdict depends on all logits, and is no sum.
    """
    require(case.model, ReadableModel)
    assert isinstance(case.model, ReadableModel)  # as mypy cannot tell
    if case.softmax:
        raise ValueError(
            "direct logit attribution explains a logit, and the verdict of a softmax depends on "
            "all of them: choose another method"
        )
    return direct_by_position(case.model, case.word, case.at, case.token)[1:]


def _patterns(case: Case) -> Float[Tensor, "layer head query key"]:
    return attention(case.model, case.word[None])[0][:, 0]


def _by_symbol(values: Float[Tensor, " pos"] | Float[np.ndarray, " pos"]) -> Values:
    """Without BOS."""
    return np.asarray(values, dtype=np.float64)[1:]
