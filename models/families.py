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


@dataclass(frozen=True)
class _Box:
    """A step of a layer, as the drawing of the architecture shows it.

    Attributes:
        kind: its colour: "mix" for a step that mixes positions, "mlp" for one that works inside a
            position, "embed" for a state.
        text: what it does; in braces the fields of "config".
        hook: the hook of what it makes, by its name inside the layer; "" where there is none.
        module: the module that holds its weights, by its name inside the layer.
        maps: the number of W, U and b that it has in a recurrence.
    """

    kind: str
    text: str
    hook: str = ""
    module: str = ""
    maps: int = 0


@dataclass(frozen=True)
class Family:
    """A kind of model: where its class lies, and what others need to know of it.

    Attributes:
        name: the value of ``ModelConfig.architecture`` for its models.
        model_path: "module:name" of the model class, or of a function that makes a model from a
            configuration, a vocabulary and a seed.
        hook_rows_path: "module:name" of the function that makes the table of hooks of a
            configuration, in the order of computation.
        caption: what it is, in a sentence.
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
        operations_path: "module:name" of the function that counts the operations of its parts
            (``models.operations``); "" where there is no formula for them.
        boxes: the steps of a layer, where attention is none of them and all layers are alike.
        formulas: a hook of a layer, the name of what it holds, and how this is made, in TeX.
    """

    name: str
    model_path: str
    hook_rows_path: str
    caption: str
    reads: frozenset[str]
    stacks: Callable[[ModelConfig], bool] = lambda config: False
    attends: bool = False
    residual: bool = False
    recurrent: bool = False
    two_sided: bool = False
    whole: bool = False
    tabular: bool = False
    title: Callable[[ModelConfig], str] | None = None
    operations_path: str = ""
    boxes: tuple[_Box, ...] = ()
    formulas: tuple[tuple[str, str, str], ...] = ()

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

CELLS = (
    ("hook_cell", "cells", r"c_t = f_t c_{t-1} + i_t \tanh(W x_t + U h_{t-1} + b)"),
    ("hook_resid_post", "hidden states", r"h_t = o_t \tanh(c_t)"),
)
"""The formulas of an LSTM."""

_ENTRIES = (
    Family(
        "transformer",
        "models.transformer.model:HookedTransformer",
        "models.transformer.hook_rows:hook_rows",
        "A decoder: each position looks back at all earlier ones by attention.",
        EMBEDDED | NORMED | HEADS | COUNTING | {"mlp", "d_mlp", "parallel"},
        # T5's bias and additive scores have weights without a stacked sibling.
        stacks=lambda config: config.positions != "t5" and config.scores != "additive",
        attends=True,
        residual=True,
        operations_path="models.operations:of_transformer",
    ),
    Family(
        "lstm",
        "models.rivals.recurrent:HookedLSTM",
        "models.rivals.recurrent:lstm_rows",
        "A recurrent network: it reads symbol by symbol and keeps a state with gates.",
        EMBEDDED,
        recurrent=True,
        operations_path="models.operations:of_recurrence",
        boxes=(
            _Box("mix", "gates i, f, o = σ(W x + U h + b)", maps=3),
            _Box("mlp", "cell c ← f · c + i · tanh(W x + U h + b)", "hook_cell", maps=1),
            _Box("embed", "state h ← o · tanh(c)", "hook_resid_post"),
        ),
        formulas=CELLS,
    ),
    Family(
        "gru",
        "models.rivals.recurrent:HookedGRU",
        "models.rivals.recurrent:rnn_rows",
        "A recurrent network with fewer gates than an LSTM.",
        EMBEDDED,
        recurrent=True,
        operations_path="models.operations:of_recurrence",
        boxes=(
            _Box("mix", "gates r, z = σ(W x + U h + b)", maps=2),
            _Box("mlp", "new n = tanh(W x + b + r · (U h + b'))", maps=1),
            _Box("embed", "state h ← (1 - z) · n + z · h", "hook_resid_post"),
        ),
        formulas=(("hook_resid_post", "hidden states", r"h_t = (1 - z_t) n_t + z_t h_{t-1}"),),
    ),
    Family(
        "rnn",
        "models.rivals.recurrent:HookedRNN",
        "models.rivals.recurrent:rnn_rows",
        "A recurrent network without gates: each state is made anew of the one before.",
        EMBEDDED,
        recurrent=True,
        operations_path="models.operations:of_recurrence",
        boxes=(_Box("embed", "state h ← tanh(W x + U h + b)", "hook_resid_post", maps=1),),
        formulas=(("hook_resid_post", "hidden states", r"h_t = \tanh(W x_t + U h_{t-1} + b)"),),
    ),
    Family(
        "cnn",
        "models.rivals.convolution:HookedConvolution",
        "models.rivals.convolution:hook_rows",
        "A convolution: each position sees a few symbols before it, layer by layer a few more.",
        EMBEDDED | NORMED | {"kernel_size"},
        stacks=lambda config: True,
        residual=True,
        operations_path="models.operations:of_convolution",
        boxes=(
            _Box(
                *("mix", "convolution over the last {config.kernel_size}"),
                *("conv.hook_pre", "conv.kernel"),
            ),
            _Box("mlp", "{config.act_fn}", "conv.hook_post"),
            _Box("mlp", "W_out", "hook_conv_out", "conv.out"),
        ),
        formulas=(
            (
                *("conv.hook_post", "after the activation"),
                r"a_t = \text{act}(\sum_j K_j x_{t-j} + b)",
            ),
            ("hook_conv_out", "added to the stream", r"y_t = W a_t + b"),
            ("hook_resid_post", "block output", r"\text{the stream after the block}"),
        ),
    ),
    Family(
        "feedforward",
        "models.rivals.feedforward:HookedFeedforward",
        "models.rivals.feedforward:hook_rows",
        "No order of reading: all symbols of a word enter side by side, for one verdict on it.",
        frozenset({"n_layers", "d_mlp", "act_fn", "bias", "n_ctx", "output"}),
        whole=True,
        operations_path="models.operations:of_whole",
        formulas=(
            ("hook_pre", "before the activation", r"W x + b"),
            ("hook_resid_post", "hidden layer", r"\text{act}(W x + b)"),
        ),
    ),
    Family(
        "encoder-decoder",
        "models.encoder_decoders.attending:HookedEncoderDecoder",
        "models.encoder_decoders.attending:hook_rows",
        "An encoder attends to the whole source; a decoder writes the target, and attends to both.",
        EMBEDDED | NORMED | BOTH_SIDES | {"mlp", "d_mlp"},
        attends=True,
        residual=True,
        two_sided=True,
    ),
    Family(
        "lstm-encoder-decoder",
        "models.encoder_decoders.recurrent:HookedLSTMPair",
        "models.encoder_decoders.recurrent:one_vector_rows",
        "An LSTM reads the source; another goes on from its last state, and writes the target.",
        EMBEDDED,
        recurrent=True,
        two_sided=True,
        formulas=CELLS,
    ),
    Family(
        "lstm-attention",
        "models.encoder_decoders.recurrent:HookedAttendingLSTMPair",
        "models.encoder_decoders.recurrent:attending_rows",
        "Two LSTMs: the one that writes the target attends to all states of the one that reads.",
        EMBEDDED,
        recurrent=True,
        two_sided=True,
        formulas=CELLS,
    ),
    Family(
        "ngram",
        "models.rivals.ngram:HookedNGram",
        "models.rivals.ngram:hook_rows",
        "No network: it counts which symbols followed the last few symbols.",
        frozenset({"order", "output"}),
        tabular=True,
        title=lambda config: f"{config.order}-gram",
    ),
)

FAMILIES = {family.name: family for family in _ENTRIES}
"""The families by name; the names are the values of ``ModelConfig.architecture``."""
