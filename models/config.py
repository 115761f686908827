"""What is built and how it is trained: two frozen, JSON-able configurations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tyro.conf import Positional

from models.errors import UserError
from models.languages import Spread, Supervision

Positions = Literal["none", "learned"]
Activation = Literal["relu", "gelu"]


def _check_choices(config: object, **choices: Any) -> None:
    """Raises UserError for a field whose value is none of its choices, as in an edited run.json."""
    for name, kind in choices.items():
        value = getattr(config, name)
        if value not in get_args(kind):
            raise UserError(f"{name} is {value!r}: choose one of {', '.join(get_args(kind))}")


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a decoder.

    Attributes:
        n_layers: blocks.
        n_heads: attention heads in a block; they share d_model evenly.
        d_model: width of the residual stream.
        d_mlp: width of the hidden layer of the MLP.
        positions: "none" (causal attention alone tells the order) or a "learned" table.
        act_fn: the MLP's activation.
        bias: whether the linear maps and norms inside the blocks add a bias. Without, a threshold
            on a count can only be set against the share of BOS in the average over the word, so
            that it moves with the length: counting then holds further beyond the training window.
        n_ctx: tokens that the learned table holds, BOS among them; without a table words of any
            length can be read.
        eps: added to the variance in every norm.
    """

    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 64
    d_mlp: int = 256
    positions: Positions = "none"
    act_fn: Activation = "gelu"
    bias: bool = True
    n_ctx: int = 1024
    eps: float = 1e-5

    def __post_init__(self) -> None:
        _check_choices(self, positions=Positions, act_fn=Activation)
        for name in ("n_layers", "n_heads", "d_model", "d_mlp", "n_ctx"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        if self.d_model % self.n_heads:
            raise UserError(
                f"d_model {self.d_model} does not divide among n_heads {self.n_heads}: "
                "choose a multiple"
            )

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads


@dataclass(frozen=True)
class TrainConfig:
    """One training run; with the code version it determines the weights.

    Attributes:
        language: the registry name, or the corpus' own name.
        seed: of the weights and of all training words.
        max_n: the training window: sizes 1..max_n (blocks of a counting language, else lengths).
        spread: of the lengths in the window: "even", or "log", each order of magnitude as often. A
            model that sees all scales alike must compare counts by their ratio, which holds longer.
        supervision: "every" teaches the set of next symbols at every position, "last" the verdict
            on the whole word alone.
        steps: the longest training; the learning rate's schedule spans it.
        batch_size: words in a step.
        learning_rate: the peak, reached after ``warmup`` steps, then a cosine down to zero.
        warmup: steps of linear rise.
        weight_decay: decoupled, as in AdamW.
        clip: largest norm of the gradient.
        evaluate_every: steps between evaluations on the training window; the state to resume from
            is saved as often.
        threads: CPU threads of a step. Their number moves the last bits of every sum, and with them
            the weights; small models are no faster with more.
        patience: stop once so many evaluations in a row were flawless; 0 trains all steps.
        model: the decoder's shape.
    """

    language: Positional[str]
    seed: int = 0
    max_n: int = 25
    spread: Spread = "even"
    supervision: Supervision = "every"
    steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.0
    clip: float = 1.0
    evaluate_every: int = 50
    threads: int = 1
    patience: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)

    def __post_init__(self) -> None:
        _check_choices(self, spread=Spread, supervision=Supervision)
        for name in ("max_n", "steps", "batch_size", "evaluate_every", "threads"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1")
        for name in ("seed", "warmup", "weight_decay", "patience"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} is {getattr(self, name)}: it cannot be negative")
        for name in ("learning_rate", "clip"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is {getattr(self, name)}: it must be positive")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrainConfig:
        """The inverse of ``dataclasses.asdict``. Raises UserError for fields that do not fit."""
        try:
            return cls(**{**values, "model": ModelConfig(**values["model"])})
        except (TypeError, KeyError) as error:
            raise UserError(
                f"the configuration does not fit this version of the lab ({error}): "
                "train the run again"
            ) from None
