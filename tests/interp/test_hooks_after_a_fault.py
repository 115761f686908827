"""A lens that fails half-way leaves no hook behind, on the model that its reader goes on with."""

from __future__ import annotations

import pytest
import torch
from test_lenses_on_a_second_device import LENSES, Asked, explained
from torch import nn

from interp.explanations.methods import GATES, METHODS

CPU = torch.device("cpu")
HALF_WAY = {
    **{
        f"{lens}, {kinds[0]}": (ask, kinds[0])
        for lens, (ask, kinds) in LENSES.items()
        if lens != "explanations"  # of which each method has its case
    },
    **{
        name: (lambda asked, name=name: explained(asked, name), "plain")
        for name, method in METHODS.items()
        if method.family in ("attention", "gradient", "LIME and SHAP") and name != GATES
    },
}


def hooks(model: nn.Module) -> list[str]:
    """The names of the modules that have hooks, each as often as it has some."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return [
        name
        for name, module in model.named_modules()
        for kind in kinds
        for _ in getattr(module, kind)
    ]


class HalfWayError(Exception):
    pass


@pytest.mark.parametrize("lens", HALF_WAY)
def test_no_hook_is_left_behind(lens: str) -> None:
    ask, kind = HALF_WAY[lens]
    asked = Asked.on(CPU, kind)
    last = [*asked.model.hook_dict.values()][-1]
    passes: list[int] = []
    last.register_forward_pre_hook(lambda *_: passes.append(1))
    before = hooks(asked.model)
    ask(asked)
    assert hooks(asked.model) == before
    count = len(passes)
    fail_at = 0

    def fail(*_: object) -> None:
        if len(passes) == fail_at:
            raise HalfWayError

    last.register_forward_pre_hook(fail)
    before = hooks(asked.model)
    for fail_at in sorted({1, 2, count // 2, count} - {0}):
        if fail_at > count:
            continue
        passes.clear()
        with pytest.raises(HalfWayError):
            ask(asked)
        assert hooks(asked.model) == before, f"fails in forward pass {fail_at} of {count}"
