"""The default configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.config import Counting, ModelConfig, TrainConfig
from models.languages import LANGUAGES, language
from models.training.recipes import SHAPE, recipe


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_a_recipe_that_suits_its_teacher(name: str) -> None:
    config = recipe(name)
    assert isinstance(config, TrainConfig)
    assert config.language == name
    assert config.objective == language(name).default_objective


def test_a_corpus_is_taught_verdicts() -> None:
    config = recipe("my lines")
    assert (config.language, config.objective) == ("my lines", "verdict")


def test_what_is_built_in_for_counting_is_for_decoders_of_several_heads() -> None:
    """Others, and comparisons of kinds, start from the plain model."""
    counts, plain = recipe("anbn"), recipe("anbn", plain=True)
    averages = Counting(averaging_heads=2, head_norm=True, centred=True)
    assert counts.model.counting == averages
    assert plain.model == SHAPE
    assert recipe("anbn", ModelConfig(n_heads=1)) == plain
    two = replace(counts.model, n_heads=2, counting=replace(averages, averaging_heads=1))
    assert recipe("anbn", ModelConfig(n_heads=2)).model == two
    steps = recipe("anbncn").model
    assert steps.counting == Counting(averaging_heads=3, counters=True)
    for n_heads, d_model, counting in ((2, 64, 1), (3, 33, 2), (8, 64, 6)):
        found = recipe("anbncn", ModelConfig(n_heads=n_heads, d_model=d_model)).model
        assert (found.n_heads, found.d_model) == (n_heads, d_model)
        assert found.counting.averaging_heads == counting
    assert recipe("anbncn", plain=True).model == SHAPE
    assert recipe("dieren") == recipe("dieren", plain=True)
    for asked in (ModelConfig(architecture="lstm"), ModelConfig(mask="bidirectional")):
        found = recipe("anbn", asked)
        assert found == recipe("anbn", asked, plain=True)
        assert not found.model.counting.head_norm
