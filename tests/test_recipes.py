"""The default configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.config import ModelConfig, TrainConfig
from models.languages import LANGUAGES, language
from models.recipes import SHAPE, recipe


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_a_recipe_that_suits_its_teacher(name: str) -> None:
    config = recipe(name)
    assert isinstance(config, TrainConfig)
    assert config.language == name
    assert config.supervision == language(name).default_supervision


def test_a_corpus_is_taught_verdicts() -> None:
    config = recipe("my lines")
    assert (config.language, config.supervision) == ("my lines", "last")


def test_what_is_built_in_for_counting_is_for_decoders_of_several_heads() -> None:
    """Others, and comparisons of kinds, start from the plain model."""
    counts, plain = recipe("anbn"), recipe("anbn", plain=True)
    assert (counts.model.averaging_heads, counts.model.head_norm, counts.model.centred) == (2, 1, 1)
    assert plain.model == SHAPE
    assert recipe("anbn", ModelConfig(n_heads=1)) == plain
    assert recipe("anbn", ModelConfig(n_heads=2)).model == replace(counts.model, averaging_heads=1)
    assert recipe("dieren") == recipe("dieren", plain=True)
    for asked in (ModelConfig(architecture="lstm"), ModelConfig(mask="bidirectional")):
        found = recipe("anbn", asked)
        assert found == recipe("anbn", asked, plain=True)
        assert not found.model.head_norm
