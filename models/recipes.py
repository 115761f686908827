"""Default configurations, each exact in its training window in under a minute on two cores."""

from __future__ import annotations

from dataclasses import replace

from models.config import ModelConfig, TrainConfig
from models.languages import LANGUAGES

SHAPE = ModelConfig(d_mlp=128, act_fn="relu", bias=False)
NEXT_SYMBOLS = TrainConfig("", spread="log", model=SHAPE)
VERDICT = TrainConfig("", max_n=20, supervision="last", steps=600, batch_size=128, model=SHAPE)

RECIPES: dict[str, TrainConfig] = {
    "an": replace(NEXT_SYMBOLS, steps=200),
    "anbn": replace(NEXT_SYMBOLS, steps=800, learning_rate=3e-3),
    "anbncn": replace(NEXT_SYMBOLS, steps=1000, batch_size=48),
    "dieren": VERDICT,
}


def recipe(language: str) -> TrainConfig:
    """The default configuration of a registered language, or of a corpus by its own name."""
    if language in RECIPES:
        return replace(RECIPES[language], language=language)
    base = NEXT_SYMBOLS if language in LANGUAGES else VERDICT
    return replace(base, language=language)
