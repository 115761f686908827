"""The families of models, an entry each: the one place that knows them by name."""

from __future__ import annotations

from models.base import LanguageModel
from models.config import ModelConfig
from models.family import Family, always, register
from models.hooks import HookRow
from models.languages import Vocabulary
from models.rivals.convolution import HookedConvolution
from models.rivals.convolution import hook_rows as convolution_rows
from models.rivals.ngram import HookedNGram
from models.rivals.ngram import hook_rows as ngram_rows
from models.rivals.recurrent import HookedGRU, HookedLSTM, gru_rows, lstm_rows
from models.transformer.hook_rows import hook_rows as transformer_rows
from models.transformer.model import HookedTransformer

EMBEDDED = frozenset({"n_layers", "d_model", "bias", "counting.centred"})
NORMED = frozenset({"norm", "norm_placement", "eps", "act_fn"})
HEADS = frozenset({"n_heads", "head_width", "scores", "mask", "positions", "n_ctx"})
COUNTING = frozenset(f"counting.{name}" for name in ("averaging_heads", "head_norm", "counters"))

register(
    Family(
        "transformer",
        HookedTransformer,
        transformer_rows,
        EMBEDDED | NORMED | HEADS | COUNTING | {"mlp", "d_mlp"},
        # T5's bias and additive scores have weights without a stacked sibling.
        stacks=lambda config: config.positions != "t5" and config.scores != "additive",
        attends=True,
        residual=True,
    )
)
register(Family("lstm", HookedLSTM, lstm_rows, EMBEDDED, recurrent=True))
register(Family("gru", HookedGRU, gru_rows, EMBEDDED, recurrent=True))
register(
    Family(
        "cnn",
        HookedConvolution,
        convolution_rows,
        EMBEDDED | NORMED | {"kernel_size"},
        stacks=always,
        residual=True,
    )
)
register(
    Family(
        "ngram",
        HookedNGram,
        ngram_rows,
        frozenset({"order"}),
        tabular=True,
        title=lambda config: f"{config.order}-gram",
    )
)


def build(config: ModelConfig, vocabulary: Vocabulary, seed: int = 0) -> LanguageModel:
    """The model of a configuration, its weights drawn from ``seed`` alone."""
    model: LanguageModel = config.family.model(config, vocabulary, seed)
    model.constrain()
    return model


def hook_table(config: ModelConfig) -> list[HookRow]:
    """Every hook of a model, in the order of computation: the one place that documents them."""
    return config.family.hook_rows(config)
