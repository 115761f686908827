"""The shapes in the annotations are checked while the tests run, in both packages: of each function
the first calls of every test."""

from __future__ import annotations

from collections.abc import Callable

import jaxtyping
import numpy as np
import pytest
import shapes
import torch
from jaxtyping import Float, TypeCheckError

from interp.explanations.scores import cosine
from interp.model import activations
from models.checks import check_fields
from models.languages import Words
from models.model_config import ModelConfig
from models.plants.program import Program
from models.transformer.model import HookedTransformer


def test_a_wrong_shape_is_caught_in_models() -> None:
    with pytest.raises(TypeCheckError):
        Words(torch.zeros(2, 3, dtype=torch.long).numpy(), torch.zeros(4, dtype=torch.long).numpy())


def test_a_wrong_shape_is_caught_in_interp(model: HookedTransformer) -> None:
    with pytest.raises(TypeCheckError):
        activations(model, torch.zeros(3, dtype=torch.long), ["hook_embed"])


def test_the_first_calls_are_checked_and_in_every_test_anew() -> None:
    wrong = np.ones(3)
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            cosine(wrong, wrong)
        for _ in range(shapes.CHECKS):
            cosine(np.ones((2, 3)), wrong)
        with pytest.raises(ValueError, match="axis"):  # numpy's own
            cosine(wrong, wrong)
        shapes.anew()


def test_a_function_within_one_is_bare_after_its_checks() -> None:
    def made() -> Callable[[np.ndarray], None]:
        @jaxtyping.jaxtyped(typechecker=shapes.checked)
        def within(x: Float[np.ndarray, "_"]) -> None:
            pass

        return within

    with pytest.raises(TypeCheckError):
        made()(np.ones((2, 3)))
    for _ in range(shapes.CHECKS):
        made()(np.ones(3))
    made()(np.ones((2, 3)))
    assert not hasattr(made(), "__wrapped__")


def test_what_has_no_shapes_is_bare() -> None:
    assert not hasattr(check_fields, "__wrapped__")
    assert not shapes.has_shapes(ModelConfig)
    assert shapes.has_shapes(Words)
    assert shapes.has_shapes(cosine)
    assert shapes.has_shapes(Program.trace)  # Values stands for one


@pytest.mark.parametrize("name", ["Game.values", "Game.__call__"])
def test_methods_are_found_by_their_names(name: str) -> None:
    assert shapes.named("interp.explanations.games", name) is not None


def test_what_no_name_leads_to_is_none() -> None:
    assert shapes.named("interp.probing.steering", "adding.<locals>.hook") is None
    assert shapes.named("nowhere", "Game.values") is None
    assert shapes.named(ModelConfig.__module__, "ModelConfig.d_head") is not None  # a property
