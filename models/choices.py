"""The parts that a model can be made of, each a field of ``ModelConfig`` with its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

from models.checks import AS_WRITTEN, check_fields
from models.errors import UserError

Scores = Literal["scaled_dot", "dot", "additive", "linear", "identity"]
Mask = Literal["causal", "strictly_causal", "bidirectional"]
Positions = Literal[
    "none", "learned", "sinusoidal", "appended", "concatenated", "rotary", "alibi", "t5"
]
Norm = Literal["layer", "rms", "none"]
NormPlacement = Literal["pre", "post", "sandwich"]
Mlp = Literal["plain", "gated", "none"]
Activation = Literal["relu", "gelu", "silu"]

CHOICES = {
    "mask": Mask,
    "positions": Positions,
    "scores": Scores,
    "norm": Norm,
    "norm_placement": NormPlacement,
    "qk_norm": Norm,
    "mlp": Mlp,
}
"""The fields of ``ModelConfig`` that make a model another kind of model, with their values."""

ABSOLUTE: tuple[Positions, ...] = ("learned", "sinusoidal", "appended", "concatenated")
"""The kinds of positions that are put to the embedding. They can be shifted in training."""


@dataclass(frozen=True)
class Counting:
    """Parts that a Transformer can have built in for counting; the one of the lectures has none.

    Attributes:
        centred: whether the embeddings of the symbols sum to zero (effect coding). Where attention
            is equal, equal counts then cancel, at any length.
        averaging_heads: how many heads of each block average; they are its first heads. Such a head
            attends equally to every position that it may see (an average attention network, Zhang
            et al. 2018; the counting of C-RASP) and has no queries or keys to learn. The other
            heads learn where to look.
        head_norm: whether what each head read is divided by its root mean square before W_O (as in
            the differential Transformer, Ye et al. 2024). An average over the word shrinks like
            1 / length; its direction does not.
        counters: whether the averaging heads count. Each number of their values is then a step: -1,
            0 or 1. With s the sum of the steps, the head reads s / sqrt(1 + s^2), number by number.
            Equal numbers of steps up and down give exactly 0. Any other sum is soon near -1 or 1. A
            long word therefore reads like a short one.
    """

    __pydantic_config__ = AS_WRITTEN

    centred: bool = False
    averaging_heads: Annotated[int, Interval(ge=0, le=4096)] = 0
    head_norm: bool = False
    counters: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.counters and not self.averaging_heads:
            raise UserError(
                "counters are averaging heads that count, and averaging_heads is 0: choose at "
                "least 1, or turn counters off"
            )
        if self.counters and self.head_norm:
            raise UserError(
                "counters have a norm of their own: choose counters or head_norm, not both"
            )
