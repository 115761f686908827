"""The default configurations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.choices import Counting
from models.config import TrainConfig
from models.errors import UserError
from models.languages import LANGUAGES, language
from models.model_config import ModelConfig
from models.runs.run import run_name
from models.training.recipes import SHAPE, recipe, recipe_or_plain, recipes_of


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_has_a_recipe_that_suits_its_teacher(name: str) -> None:
    config = recipe(name)
    assert isinstance(config, TrainConfig)
    assert config.language == name
    assert config.objective == language(name).default_objective


def test_a_corpus_is_taught_verdicts() -> None:
    config = recipe("my lines")
    assert (config.language, config.objective) == ("my lines", "verdict")


@pytest.mark.parametrize("name", LANGUAGES)
def test_plain_is_the_default(name: str) -> None:
    """The Transformer of the lectures: nothing is built in for counting."""
    config = recipe(name)
    plain = SHAPE
    if config.objective == "sequence-to-sequence":  # which place of a source is copied must be told
        plain = replace(SHAPE, positions="sinusoidal", output="conditional")
    if name.startswith("in-context"):  # equal symbols must be found, wherever they stand
        plain = replace(plain, positions="rotary", bias=True, even_start=False)
    assert (config.recipe, config.model) == ("plain", plain)
    assert config.model.counting == Counting()
    assert recipe(name, name="plain") == config
    assert recipe(name, ModelConfig(n_heads=1)) == config


def test_what_is_built_in_for_counting_has_a_name() -> None:
    counts = recipe("anbn", name="counting")
    averages = Counting(averaging_heads=2, head_norm=True, centred=True)
    assert (counts.recipe, counts.model.counting) == ("counting", averages)
    two = replace(counts.model, n_heads=2, counting=replace(averages, averaging_heads=1))
    assert recipe("anbn", ModelConfig(n_heads=2), "counting").model == two
    steps = recipe("anbncn", name="counting").model
    assert steps.counting == Counting(averaging_heads=3, counters=True)
    for n_heads, d_model, counting in ((2, 64, 1), (3, 33, 2), (8, 64, 6)):
        asked = ModelConfig(n_heads=n_heads, d_model=d_model)
        found = recipe("anbncn", asked, "counting").model
        assert (found.n_heads, found.d_model) == (n_heads, d_model)
        assert found.counting.averaging_heads == counting


@pytest.mark.parametrize(
    "asked",
    [
        ModelConfig(architecture="lstm"),
        ModelConfig(mask="bidirectional"),
        ModelConfig(n_heads=1),
    ],
)
def test_counting_is_for_decoders_of_several_heads(asked: ModelConfig) -> None:
    with pytest.raises(UserError, match="causal Transformer of two heads or more: ask for one"):
        recipe("anbn", asked, "counting")
    assert recipe("anbn", asked).model.counting == Counting()


def test_a_language_is_asked_for_its_own_recipes() -> None:
    assert recipes_of("anbncn") == ["plain", "counting"]
    assert recipes_of("dieren") == recipes_of("my lines") == ["plain"]
    with pytest.raises(UserError, match=r"^dieren has no recipe 'counting': choose one of plain$"):
        recipe("dieren", name="counting")
    with pytest.raises(UserError, match=r"^anbn has no recipe 'fast': choose one of plain, count"):
        recipe("anbn", name="fast")
    assert recipe_or_plain("dieren", "counting") == recipe("dieren")
    assert recipe_or_plain("anbn", "counting") == recipe("anbn", name="counting")
    with pytest.raises(UserError, match=r"^unknown recipe 'fast': choose one of plain, counting$"):
        recipe_or_plain("dieren", "fast")


def test_a_run_of_a_recipe_with_a_name_carries_it() -> None:
    assert run_name(recipe("anbn")) == "anbn-s0"
    assert run_name(replace(recipe("anbn", name="counting"), seed=3)) == "anbn-counting-s3"


@pytest.mark.parametrize(
    ("name", "language", "rate", "steps", "batch_size", "spread"),
    [
        ("plain", "an", 2e-3, 200, 64, "log"),
        ("plain", "anbn", 3e-3, 800, 64, "log"),
        ("plain", "anbncn", 2e-3, 1000, 48, "log"),
        ("plain", "dyck1", 2e-3, 1000, 64, "log"),
        ("plain", "dieren", 2e-3, 600, 128, "even"),
        ("plain", "my lines", 2e-3, 600, 128, "even"),
        ("counting", "anbn", 1e-3, 1200, 64, "even"),
        ("counting", "anbncn", 2e-3, 1200, 48, "even"),
    ],
)
def test_the_figures_of_the_pages_were_measured_with_these_numbers(
    name: str, language: str, rate: float, steps: int, batch_size: int, spread: str
) -> None:
    """Another rate still learns, so that no other test would see it."""
    found = recipe(language, name=name)
    assert (found.learning_rate, found.steps) == (rate, steps)
    assert (found.batch_size, found.spread) == (batch_size, spread)
    assert (found.warmup, found.weight_decay, found.clip, found.patience) == (50, 0.0, 1.0, 0)
