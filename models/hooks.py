"""Hooks: the rows of the table that documents them, and whether anybody listens to them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformer_lens.hook_points import HookPoint


def listened(*points: HookPoint) -> bool:
    """Is any hook, forward or backward, set on any of the points?

    What only a hook needs is left out when nobody listens. PyTorch's own tables are read, so that
    hooks that were set without TransformerLens count too.
    """
    return any(
        p._forward_hooks or p._forward_pre_hooks or p._backward_hooks or p._backward_pre_hooks
        for p in points
    )


@dataclass(frozen=True)
class HookRow:
    """One line of the table of hook names.

    Attributes:
        name: TransformerLens' name of the hook; {layer} stands for the number of a block, and in a
            model of two sides {encoder} and {decoder} for that of a block of one side.
        shape: the activation's axes, by name.
        meaning: what the activation is.
        first, last: the blocks that have it, from ``first`` up to before ``last``; None is all.
    """

    name: str
    shape: tuple[str, ...]
    meaning: str
    first: int = 0
    last: int | None = None

    def names(self, n_layers: int) -> list[str]:
        """The names of this line's hooks, with the number of each block put in."""
        if "{" not in self.name:
            return [self.name]
        last = n_layers if self.last is None else self.last
        return [
            self.name.format(layer=layer, encoder=layer, decoder=layer)
            for layer in range(self.first, last)
        ]

    def of_side(self, first: int = 0, last: int | None = None) -> HookRow:
        """The same for the blocks of one side: the encoder's, which end, or the decoder's."""
        side = "{decoder}" if last is None else "{encoder}"
        return replace(self, name=self.name.replace("{layer}", side), first=first, last=last)


STREAM = ("batch", "pos", "d_model")
HEADS = ("batch", "pos", "head", "d_head")
VALUES = ("batch", "pos", "head", "d_value")
PAIRS = ("batch", "head", "query", "key")
HIDDEN = ("batch", "pos", "d_mlp")


def norm_rows(name: str, shape: tuple[str, ...] = STREAM) -> list[HookRow]:
    """The two lines of a norm whose module is called ``name``."""
    return [
        HookRow(f"{name}.hook_scale", (*shape[:-1], "1"), "what the norm divides by"),
        HookRow(f"{name}.hook_normalized", shape, "the result, before gamma and beta"),
    ]
