"""The ways to explain a case, by name, behind one interface.

LIME and SHAP play a ``Game`` on binary masks of positions. Gradients, attention and direct logit
attribution look inside the model, at the same verdict. Gradients explain the verdict's log odds,
because a probability near 0 or 1 has almost no gradient. Of the controls, "random" knows nothing,
"position" only the position, "oracle" the published rationale, and "language" the language itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from interp.explanations import attention, controls, saliency
from interp.explanations.case import Case, Values
from interp.explanations.games import EXACT_LIMIT, exact_shapley
from interp.explanations.interventions import leave_one_out, substitution
from interp.explanations.lime_and_shap import (
    kernel_shap,
    lime,
    partition_shap,
    permutation_shap,
    shap_exact,
)

Family = Literal["LIME and SHAP", "intervention", "gradient", "attention", "control"]


@dataclass(frozen=True)
class Method:
    """A way to explain a case.

    Attributes:
        family: the family that it belongs to.
        run: gives the values of a case, from the case and a seed; if ``signed``, positive speaks
            for "in the language".
        seeded: whether the answer depends on the seed.
        signed: False if values only say how much a symbol matters, not in which direction.
        replaces: whether the answer depends on what takes the place of hidden symbols.
    """

    family: Family
    run: Callable[[Case, int], Values]
    seeded: bool = False
    signed: bool = True
    replaces: bool = True


METHODS: Mapping[str, Method] = {
    "LIME": Method("LIME and SHAP", lambda c, seed: lime(c.game, c.samples, seed), seeded=True),
    "SHAP kernel": Method(
        "LIME and SHAP", lambda c, seed: kernel_shap(c.game, c.samples, seed), seeded=True
    ),
    "SHAP permutation": Method(
        "LIME and SHAP", lambda c, seed: permutation_shap(c.game, c.samples, seed), seeded=True
    ),
    "SHAP partition": Method("LIME and SHAP", lambda c, _: partition_shap(c.game, c.samples)),
    "SHAP exact": Method("LIME and SHAP", lambda c, _: shap_exact(c.game)),
    "Shapley exact": Method("LIME and SHAP", lambda c, _: exact_shapley(c.game)),
    "leave one out": Method("intervention", lambda c, _: leave_one_out(c.game)),
    "substitution": Method("intervention", lambda c, _: substitution(c), replaces=False),
    "direct logit attribution": Method(
        "attention", lambda c, _: attention.direct(c), replaces=False
    ),
    "attention": Method(
        "attention", lambda c, _: attention.last_layer(c), signed=False, replaces=False
    ),
    "rollout": Method("attention", lambda c, _: attention.rollout(c), signed=False, replaces=False),
    "flow": Method("attention", lambda c, _: attention.flow(c), signed=False, replaces=False),
    "gradient x input": Method(
        "gradient",
        lambda c, _: saliency.gradient_x_input(c.model, c.word, c.metric),
        replaces=False,
    ),
    "SmoothGrad": Method(
        "gradient",
        lambda c, seed: saliency.smoothgrad(c.model, c.word, c.metric, seed),
        seeded=True,
        replaces=False,
    ),
    "integrated gradients": Method(
        "gradient",
        lambda c, _: saliency.integrated_gradients(c.model, c.word, c.baselines, c.metric),
    ),
    "DeepLift": Method(
        "gradient", lambda c, _: saliency.deeplift(c.model, c.word, c.baselines, c.metric)
    ),
    "random": Method("control", controls.noise, seeded=True, replaces=False),
    "position": Method("control", lambda c, _: controls.position(c), signed=False, replaces=False),
    "oracle": Method("control", lambda c, _: controls.oracle(c), signed=False, replaces=False),
    "language": Method("control", lambda c, _: controls.language(c)),
}
"""The methods by name, in the order in which they are shown."""

EXACT = ("SHAP exact", "Shapley exact", "language")
"""Methods that need all 2^T coalitions."""
COMPLETE = ("integrated gradients", "DeepLift")
"""Methods whose values should sum to the difference of the log odds from the baselines."""


def offered(case: Case) -> list[str]:
    """The names of the methods that can explain this case, in the order of ``METHODS``."""
    hooks = case.model.hook_dict
    impossible: set[str] = set()
    if len(case.game.word) > EXACT_LIMIT:
        impossible.update(EXACT)
    if "blocks.0.attn.hook_pattern" not in hooks:
        impossible.update(name for name, m in METHODS.items() if m.family == "attention")
    if case.softmax:
        impossible.add("direct logit attribution")
    if saliency.EMBEDDING not in hooks:
        impossible.update(name for name, m in METHODS.items() if m.family == "gradient")
    if case.truth is None:
        impossible.add("language")
    if case.rationale is None:
        impossible.add("oracle")
    return [name for name in METHODS if name not in impossible]
