"""Default configurations; a decoder's is exact in its window in under a minute on two cores."""

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
    "dieren_muis": VERDICT,
}


def recipe(language: str, asked: ModelConfig = SHAPE) -> TrainConfig:
    """The default configuration of a registered language, or of a corpus by its own name.

    Args:
        asked: whose architecture and mask the defaults are for. A rival has the same words, steps
            and about as many weights; an encoder recognises whole words, needs positions, and as
            many steps as one verdict a word takes to teach them.
    """
    base = NEXT_SYMBOLS if language in LANGUAGES else VERDICT
    base = replace(RECIPES.get(language, base), language=language)
    if asked.architecture != "transformer":
        return replace(base, model=ModelConfig(architecture=asked.architecture, act_fn="relu"))
    if asked.is_encoder:
        encoder = replace(SHAPE, mask="bidirectional", positions="learned")
        return replace(base, supervision="last", steps=3000, model=encoder)
    return base
