"""The hooks: their names in one table, and does anybody listen?"""

from __future__ import annotations

from dataclasses import dataclass

from transformer_lens.hook_points import HookPoint


def listened(*points: HookPoint) -> bool:
    """Is any hook, forward or backward, set on any of the points? One that nobody uses is free.

    PyTorch's own tables are read, so that hooks set past TransformerLens count too.
    """
    return any(
        p._forward_hooks or p._forward_pre_hooks or p._backward_hooks or p._backward_pre_hooks
        for p in points
    )


@dataclass(frozen=True)
class HookRow:
    """One line of the table of hook names.

    Attributes:
        name: as TransformerLens calls it; {layer} stands for every block.
        shape: the activation's, by axis.
        meaning: what it is.
    """

    name: str
    shape: tuple[str, ...]
    meaning: str

    def names(self, n_layers: int) -> list[str]:
        """The hooks of this line, written out."""
        if "{layer}" not in self.name:
            return [self.name]
        return [self.name.format(layer=layer) for layer in range(n_layers)]


STREAM = ("batch", "pos", "d_model")
HEADS = ("batch", "pos", "head", "d_head")
PAIRS = ("batch", "head", "query", "key")
HIDDEN = ("batch", "pos", "d_mlp")


def norm_rows(name: str, shape: tuple[str, ...] = STREAM) -> list[HookRow]:
    """The two lines of a norm."""
    return [
        HookRow(f"{name}.hook_scale", (*shape[:-1], "1"), "what the norm divides by"),
        HookRow(f"{name}.hook_normalized", shape, "after it, before gamma and beta"),
    ]
