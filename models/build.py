"""From a configuration to its model."""

from __future__ import annotations

from collections.abc import Callable

from models.base import LanguageModel
from models.config import Architecture, ModelConfig
from models.languages import Vocabulary
from models.rivals.convolution import HookedConvolution
from models.rivals.ngram import HookedNGram
from models.rivals.recurrent import HookedRecurrent
from models.transformer.model import HookedTransformer

ARCHITECTURES: dict[Architecture, Callable[[ModelConfig, Vocabulary, int], LanguageModel]] = {
    "transformer": HookedTransformer,
    "lstm": HookedRecurrent,
    "gru": HookedRecurrent,
    "cnn": HookedConvolution,
    "ngram": HookedNGram,
}


def build(config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> LanguageModel:
    """The model of a configuration, its weights drawn from ``seed`` alone."""
    model = ARCHITECTURES[config.architecture](config, vocabulary, seed)
    model.constrain()
    return model
