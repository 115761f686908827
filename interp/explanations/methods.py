"""The ways to explain a case, by name, behind one interface.

LIME and SHAP play a ``Game`` on binary masks of positions. Gradients, attention and direct logit
attribution look inside the model, at the same verdict. A verdict is a probability or its log odds.
Methods that explain a number explain both, each on its own: a sigmoid is flat near 0 and 1, and so
the two can rank symbols differently. Of the controls, "random" knows nothing, "position" only the
position, "oracle" the published rationale, and "language" the language itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from interp.causal.metrics import Metric
from interp.explanations import attention, controls, saliency
from interp.explanations.case import Case, Values
from interp.explanations.games import EXACT_LIMIT, SCALES, exact_shapley
from interp.explanations.interventions import leave_one_out, substitution
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)
from interp.model import one_stream

Family = Literal["LIME and SHAP", "intervention", "gradient", "attention", "control"]


@dataclass(frozen=True)
class Method:
    """A way to explain a case.

    Attributes:
        family: the family that it belongs to.
        estimand: the quantity that the values would be without any error of sampling.
        run: gives the values of a case, from the case and a seed: one row for each of ``scales``
            if there are several, [scales, time], else [time]. If ``signed``, positive speaks for
            "in the language".
        scales: the explained quantities: the probability, the log odds, the membership in the
            language itself; "none" if the values have no unit.
        seeded: whether the answer depends on the seed.
        signed: False if values only say how much a symbol matters, not in which direction.
        replaces: whether the answer depends on what takes the place of hidden symbols.
    """

    family: Family
    estimand: str
    run: Callable[[Case, int], Values]
    scales: tuple[str, ...] = SCALES
    seeded: bool = False
    signed: bool = True
    replaces: bool = True


UNSCALED = ("none",)
GATES = "LSTM gates"
SHAPLEY = "Shapley values"


_weights = partial(Method, scales=UNSCALED, signed=False, replaces=False)
"""A method that says how much each place matters, by numbers without a unit."""


def _of_metrics(
    explain: Callable[[Case, Metric, int], Values],
) -> Callable[[Case, int], Values]:
    """A method that explains one metric, asked about the verdict on each scale."""
    return lambda c, seed: np.stack([explain(c, metric, seed) for metric in c.metrics.values()])


METHODS: Mapping[str, Method] = {
    "LIME": Method(
        "LIME and SHAP",
        "slopes of a linear model fitted near the word",
        lambda c, seed: lime(c.game, c.samples, seed),
        seeded=True,
    ),
    "SHAP kernel": Method(
        "LIME and SHAP",
        SHAPLEY,
        lambda c, seed: kernel_shap(c.game, c.samples, seed),
        seeded=True,
    ),
    "SHAP permutation": Method(
        "LIME and SHAP",
        SHAPLEY,
        lambda c, seed: permutation_shap(c.game, c.samples, seed),
        seeded=True,
    ),
    "SHAP partition": Method(
        "LIME and SHAP",
        "Owen values: neighbours are one group",
        lambda c, _: partition_shap(c.game, c.samples),
    ),
    "SHAP exact": Method("LIME and SHAP", SHAPLEY, lambda c, _: shap_exact(c.game)),
    "Shapley exact": Method("LIME and SHAP", SHAPLEY, lambda c, _: exact_shapley(c.game)),
    "leave one out": Method(
        "intervention", "loss when the symbol alone is hidden", lambda c, _: leave_one_out(c.game)
    ),
    "substitution": Method(
        "intervention",
        "largest loss by another symbol in this place",
        lambda c, _: substitution(c),
        replaces=False,
    ),
    "direct logit attribution": Method(
        "attention",
        "part of the logit that heads read from this place",
        lambda c, _: attention.direct(c),
        scales=("log odds",),
        replaces=False,
    ),
    "attention": _weights(
        "attention", "mean weight of the last layer's heads", lambda c, _: attention.last_layer(c)
    ),
    "rollout": _weights(
        "attention", "weights multiplied through the layers", lambda c, _: attention.rollout(c)
    ),
    "flow": _weights(
        "attention", "largest flow that the weights let through", lambda c, _: attention.flow(c)
    ),
    GATES: _weights(
        "attention",
        "input gate times later forget gates, mean over units",
        lambda c, _: attention.gates(c),
    ),
    "gradient x input": Method(
        "gradient",
        "gradient at the word times its embedding",
        _of_metrics(lambda c, metric, _: saliency.gradient_x_input(c.model, c.word, metric)),
        replaces=False,
    ),
    "SmoothGrad": Method(
        "gradient",
        "mean gradient near the word times its embedding",
        _of_metrics(lambda c, metric, seed: saliency.smoothgrad(c.model, c.word, metric, seed)),
        seeded=True,
        replaces=False,
    ),
    "integrated gradients": Method(
        "gradient",
        "Aumann-Shapley values on the line from the hidden word",
        lambda c, _: saliency.integrated_gradients(
            c.model, c.word, c.baselines, list(c.metrics.values()), c.steps
        ),
    ),
    "DeepLift": Method(
        "gradient",
        "difference from the hidden word by the rescale rule",
        _of_metrics(lambda c, metric, _: saliency.deeplift(c.model, c.word, c.baselines, metric)),
    ),
    "random": Method(
        "control",
        "nothing",
        controls.noise,
        scales=UNSCALED,
        seeded=True,
        replaces=False,
    ),
    "position": _weights("control", "the place in the word", lambda c, _: controls.position(c)),
    "oracle": _weights("control", "one rationale", lambda c, _: controls.oracle(c)),
    "language": Method(
        "control", SHAPLEY, lambda c, _: controls.language(c), scales=("membership",)
    ),
}
"""The methods by name, in the order in which they are shown."""

EXACT = ("SHAP exact", "Shapley exact", "language")
"""Methods that need all 2^T coalitions."""
COMPLETE = ("integrated gradients", "DeepLift")
"""Methods whose values should sum to the difference of the verdict from the baselines."""


def called(method: str, scale: str) -> str:
    """The name of a row: "LIME (log odds)"; the method alone if it has no scale."""
    return f"{method} ({scale})" if scale in SCALES else method


def offered(case: Case) -> list[str]:
    """The names of the methods that can explain this case, in the order of ``METHODS``."""
    hooks = case.model.hook_dict
    impossible: set[str] = set()
    if len(case.game.word) > EXACT_LIMIT:
        impossible.update(EXACT)
    heads = "blocks.0.attn.hook_pattern" in hooks and one_stream(case.model)
    gates = not heads and attention.has_gates(case)
    impossible.update(
        name
        for name, m in METHODS.items()
        if m.family == "attention" and not (gates if name == GATES else heads)
    )
    if case.softmax:
        impossible.add("direct logit attribution")
    if saliency.EMBEDDING not in hooks:
        impossible.update(name for name, m in METHODS.items() if m.family == "gradient")
    if case.truth is None:
        impossible.add("language")
    if case.rationales is None:
        impossible.add("oracle")
    return [name for name in METHODS if name not in impossible]
