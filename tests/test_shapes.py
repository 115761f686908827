"""What checks the shapes: the first calls in a test, and every test anew."""

from __future__ import annotations

import numpy as np
import pytest
import shapes
from jaxtyping import TypeCheckError

from interp.linear import Scale
from models.config import ModelConfig


def test_the_first_calls_are_checked_and_in_every_test_anew() -> None:
    wrong = np.ones(3)
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            Scale.of(wrong)
        for _ in range(shapes.CHECKS):
            Scale.of(np.ones((3, 2)))
        with pytest.raises(ValueError, match="axis"):  # numpy's own
            Scale.of(wrong)
        shapes.anew()


@pytest.mark.parametrize("name", ["Scale.of", "Scale.__call__"])
def test_methods_are_found_by_their_names(name: str) -> None:
    assert shapes.named("interp.linear", name) is not None


def test_what_no_name_leads_to_is_none() -> None:
    assert shapes.named("interp.linear", "_logistic.<locals>.loss") is None
    assert shapes.named("nowhere", "Scale.of") is None
    assert shapes.named(ModelConfig.__module__, "ModelConfig.d_head") is not None  # a property
