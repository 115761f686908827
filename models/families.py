"""The families of models, one entry each.

No other code knows families by name: it asks the entry. A model's code, and PyTorch with it, is
imported only when the model is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

# The configuration's file imports this one, to check against the family. So its type is "Any" here.
ModelConfig = Any


def never(config: ModelConfig) -> bool:
    """``Family.stacks`` of a family whose models cannot be stacked."""
    return False


def always(config: ModelConfig) -> bool:
    """``Family.stacks`` of a family whose models can be stacked in every shape."""
    return True


@dataclass(frozen=True)
class Family:
    """A kind of model: where its class lies, and what others need to know of it.

    Attributes:
        name: the value of ``ModelConfig.architecture`` for its models.
        model_path: "module:name" of the model class, or of a function that makes a model from a
            configuration, a vocabulary and a seed.
        hook_rows_path: "module:name" of the function that makes the table of hooks of a
            configuration, in the order of computation.
        reads: the fields of ``ModelConfig`` that decide what is built, by dotted name. A choice
            (mask, positions, ...) that the family does not read would be silently lost, so it is
            refused; other fields that it does not read are ignored.
        stacks: tells of a configuration whether many of its models can be trained as one. They can
            if every part with weights has a stacked sibling (``models.training.stacked``).
        attends: whether it has attention heads.
        residual: whether its parts add to a residual stream.
        recurrent: whether a position goes on from the state of the position before it.
        two_sided: whether an encoder reads the source of a pair, and a decoder goes on from there.
            The first half of the blocks is the encoder's.
        whole: whether it reads a whole word at once, of at most n_ctx - 1 symbols, and gives one
            verdict on it.
        tabular: whether it is a table of counts: it learns without gradients and has no activations
            to change.
        title: tells of a configuration what its models are called; None composes the name from the
            choices (``ModelConfig.kind``).
    """

    name: str
    model_path: str
    hook_rows_path: str
    reads: frozenset[str]
    stacks: Callable[[ModelConfig], bool] = never
    attends: bool = False
    residual: bool = False
    recurrent: bool = False
    two_sided: bool = False
    whole: bool = False
    tabular: bool = False
    title: Callable[[ModelConfig], str] | None = None

    @property
    def model(self) -> Callable[..., Any]:
        """The class of its models, or the function that makes them."""
        return resolve_name(self.model_path)

    @property
    def hook_rows(self) -> Callable[[ModelConfig], list[Any]]:
        """The function that makes the table of hooks of a configuration."""
        return resolve_name(self.hook_rows_path)


EMBEDDED = frozenset({"n_layers", "d_model", "bias", "output", "counting.centred"})
NORMED = frozenset({"norm", "norm_placement", "residual", "eps", "act_fn"})
HEADS = frozenset({"n_heads", "head_width", "value_width", "scores", "qk_norm", "dropout"})
HEADS |= {"mask", "window", "positions", "position_base", "n_ctx", "even_start"}
BOTH_SIDES = HEADS - {"mask", "window"}
COUNTING = frozenset(f"counting.{name}" for name in ("averaging_heads", "head_norm", "counters"))

_ENTRIES = (
    Family(
        "transformer",
        "models.transformer.model:HookedTransformer",
        "models.transformer.hook_rows:hook_rows",
        EMBEDDED | NORMED | HEADS | COUNTING | {"mlp", "d_mlp", "parallel"},
        # T5's bias and additive scores have weights without a stacked sibling.
        stacks=lambda config: config.positions != "t5" and config.scores != "additive",
        attends=True,
        residual=True,
    ),
    Family(
        "lstm",
        "models.rivals.recurrent:HookedLSTM",
        "models.rivals.recurrent:lstm_rows",
        EMBEDDED,
        recurrent=True,
    ),
    Family(
        "gru",
        "models.rivals.recurrent:HookedGRU",
        "models.rivals.recurrent:rnn_rows",
        EMBEDDED,
        recurrent=True,
    ),
    Family(
        "rnn",
        "models.rivals.recurrent:HookedRNN",
        "models.rivals.recurrent:rnn_rows",
        EMBEDDED,
        recurrent=True,
    ),
    Family(
        "cnn",
        "models.rivals.convolution:HookedConvolution",
        "models.rivals.convolution:hook_rows",
        EMBEDDED | NORMED | {"kernel_size"},
        stacks=always,
        residual=True,
    ),
    Family(
        "feedforward",
        "models.rivals.feedforward:HookedFeedforward",
        "models.rivals.feedforward:hook_rows",
        frozenset({"n_layers", "d_mlp", "act_fn", "bias", "n_ctx", "output"}),
        whole=True,
    ),
    Family(
        "encoder-decoder",
        "models.encoder_decoders.attending:HookedEncoderDecoder",
        "models.encoder_decoders.attending:hook_rows",
        EMBEDDED | NORMED | BOTH_SIDES | {"mlp", "d_mlp"},
        attends=True,
        residual=True,
        two_sided=True,
    ),
    Family(
        "lstm-encoder-decoder",
        "models.encoder_decoders.recurrent:HookedLSTMPair",
        "models.encoder_decoders.recurrent:one_vector_rows",
        EMBEDDED,
        recurrent=True,
        two_sided=True,
    ),
    Family(
        "lstm-attention",
        "models.encoder_decoders.recurrent:HookedAttendingLSTMPair",
        "models.encoder_decoders.recurrent:attending_rows",
        EMBEDDED,
        recurrent=True,
        two_sided=True,
    ),
    Family(
        "ngram",
        "models.rivals.ngram:HookedNGram",
        "models.rivals.ngram:hook_rows",
        frozenset({"order", "output"}),
        tabular=True,
        title=lambda config: f"{config.order}-gram",
    ),
)

FAMILIES = {family.name: family for family in _ENTRIES}
"""The families by name; the names are the values of ``ModelConfig.architecture``."""
