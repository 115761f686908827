"""From a configuration to its model, and to the table of its hooks."""

from __future__ import annotations

from collections.abc import Callable

from models.base import LanguageModel
from models.config import Architecture, ModelConfig
from models.hooks import HookRow
from models.languages import Vocabulary
from models.rivals.convolution import HookedConvolution
from models.rivals.convolution import hook_rows as convolution_rows
from models.rivals.ngram import HookedNGram
from models.rivals.ngram import hook_rows as ngram_rows
from models.rivals.recurrent import HookedRecurrent
from models.rivals.recurrent import hook_rows as recurrent_rows
from models.transformer.hook_rows import hook_rows as transformer_rows
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


def hook_table(config: ModelConfig) -> list[HookRow]:
    """Every hook of a model, in the order of computation: the one place that documents them."""
    rows = {
        "transformer": transformer_rows,
        "lstm": recurrent_rows,
        "gru": recurrent_rows,
        "cnn": convolution_rows,
        "ngram": ngram_rows,
    }
    return rows[config.architecture](config)
