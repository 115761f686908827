"""The families of models, an entry each: the one place that knows them by name.

Everybody asks the entry instead of the name. A model is imported when it is asked for, and PyTorch
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

# A configuration is checked against its family, so it stands above this file: "Any" here.
ModelConfig = Any


def never(config: ModelConfig) -> bool:
    """For a family that cannot be stacked."""
    return False


def always(config: ModelConfig) -> bool:
    """For a family that can be stacked in every shape."""
    return True


@dataclass(frozen=True)
class Family:
    """A kind of model: where its class lies, and what others need to know of it.

    Attributes:
        name: ``ModelConfig.architecture`` of its models.
        model_path: "module:name" of the class, or of what makes a model of a configuration, a
            vocabulary and a seed.
        hook_rows_path: the same of what makes the table of hooks of a configuration, in the order
            of computation.
        reads: the fields of ``ModelConfig`` that decide what is built, by dotted name. A choice
            that it does not read would be silently lost, so it is refused; other fields go
            unheeded.
        stacks: whether many models of a configuration can be trained as one, that is whether every
            part that has weights has a stacked sibling (``models.training.stacked``).
        attends: whether it has attention heads.
        residual: whether its parts add to a residual stream.
        recurrent: whether a position goes on from the state of the position before it.
        tabular: whether it is a table of counts: it learns without gradients and has no activations
            to change.
        title: what its models are called; None composes that of the choices.
    """

    name: str
    model_path: str
    hook_rows_path: str
    reads: frozenset[str]
    stacks: Callable[[ModelConfig], bool] = never
    attends: bool = False
    residual: bool = False
    recurrent: bool = False
    tabular: bool = False
    title: Callable[[ModelConfig], str] | None = None

    @property
    def model(self) -> Callable[..., Any]:
        """The class of its models."""
        return resolve_name(self.model_path)

    @property
    def hook_rows(self) -> Callable[[ModelConfig], list[Any]]:
        """What makes the table of hooks of a configuration."""
        return resolve_name(self.hook_rows_path)


EMBEDDED = frozenset({"n_layers", "d_model", "bias", "counting.centred"})
NORMED = frozenset({"norm", "norm_placement", "eps", "act_fn"})
HEADS = frozenset({"n_heads", "head_width", "scores", "mask", "positions", "n_ctx"})
COUNTING = frozenset(f"counting.{name}" for name in ("averaging_heads", "head_norm", "counters"))

_ENTRIES = (
    Family(
        "transformer",
        "models.transformer.model:HookedTransformer",
        "models.transformer.hook_rows:hook_rows",
        EMBEDDED | NORMED | HEADS | COUNTING | {"mlp", "d_mlp"},
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
        "models.rivals.recurrent:gru_rows",
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
        "ngram",
        "models.rivals.ngram:HookedNGram",
        "models.rivals.ngram:hook_rows",
        frozenset({"order"}),
        tabular=True,
        title=lambda config: f"{config.order}-gram",
    ),
)

FAMILIES = {family.name: family for family in _ENTRIES}
"""By name; each is a value of ``ModelConfig.architecture``."""
