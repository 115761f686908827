"""The default configurations."""

from __future__ import annotations

import pytest

from models.config import TrainConfig
from models.languages import LANGUAGES, language
from models.recipes import recipe


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_a_recipe_that_suits_its_teacher(name: str) -> None:
    config = recipe(name)
    assert isinstance(config, TrainConfig)
    assert config.language == name
    assert config.supervision == language(name).default_supervision


def test_a_corpus_is_taught_verdicts() -> None:
    config = recipe("my lines")
    assert (config.language, config.supervision) == ("my lines", "last")
