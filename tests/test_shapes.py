"""The shapes in the annotations are checked while the tests run, in both packages."""

from __future__ import annotations

import pytest
import torch
from jaxtyping import TypeCheckError

from interp.model import activations
from models.languages import Words
from models.transformer import HookedTransformer


def test_a_wrong_shape_is_caught_in_models() -> None:
    with pytest.raises(TypeCheckError):
        Words(torch.zeros(2, 3, dtype=torch.long).numpy(), torch.zeros(4, dtype=torch.long).numpy())


def test_a_wrong_shape_is_caught_in_interp(model: HookedTransformer) -> None:
    with pytest.raises(TypeCheckError):
        activations(model, torch.zeros(3, dtype=torch.long), ["hook_embed"])
