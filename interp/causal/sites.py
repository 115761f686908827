"""Sites: the activations that can be patched, by component, layer, position, head and unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from interp.model import HookedModel, require_stream
from interp.weights import key_heads

BY_POSITION = ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "conv_out", "cell")
BY_HEAD_AND_POSITION = ("z", "q", "k", "v")
COMPONENTS = (*BY_POSITION, *BY_HEAD_AND_POSITION, "pattern", "neuron")
"""Parts that can be patched. ``BY_POSITION`` is patched at one position, ``BY_HEAD_AND_POSITION``
in one head at one position, "pattern" in one head at one query (its position) and one key, and
"neuron" in one hidden unit of an MLP at one position. With grouped queries, the heads of "k" and
"v" are the groups, in their order: the heads of a group share them."""

PLACE = ["component", "layer", "head", "neuron", "position", "key"]
"""The columns that name a site; -1 means that one does not apply, or all positions at once."""


@dataclass(frozen=True)
class Site:
    """One activation.

    Attributes:
        component: one of ``COMPONENTS``.
        layer: the number of the block.
        position: BOS is 0; None means all positions at once.
        head, key, neuron: given if the component has them, else None.
    """

    component: str
    layer: int
    position: int | None
    head: int | None = None
    key: int | None = None
    neuron: int | None = None

    @property
    def hook(self) -> str:
        inside = "attn." if self.component in (*BY_HEAD_AND_POSITION, "pattern") else ""
        name = "mlp.hook_post" if self.component == "neuron" else f"hook_{self.component}"
        return f"blocks.{self.layer}.{inside}{name}"

    @property
    def place(self) -> tuple[object, ...]:
        """The values of the columns ``PLACE``."""
        values = (getattr(self, name) for name in PLACE)
        return tuple(-1 if value is None else value for value in values)


def all_sites(
    model: HookedModel, component: str, positions: int, whole: bool = False
) -> list[Site]:
    """Every site of a component, by layer, then head or neuron, then position, then key.

    Args:
        positions: the length of the words, BOS included.
        whole: all positions of a site at once.

    Raises:
        ValueError: the component is unknown; or the model does not have it; or the stream cannot be
            changed there, as at resid_mid of a ``TransformerBridge``.
    """
    if component not in COMPONENTS:
        raise ValueError(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}")
    if Site(component, 0, 0).hook not in model.hook_dict:
        raise ValueError(f"this model has no {component}: leave it out")
    require_stream(model, Site(component, 0, 0).hook)
    layers, at = range(model.cfg.n_layers), [None] if whole else range(positions)
    if component == "neuron":
        units = product(layers, range(model.cfg.d_mlp), at)
        return [Site(component, layer, p, neuron=unit) for layer, unit, p in units]
    if component == "pattern" and not whole:
        causal = model.cfg.attention_dir == "causal"
        return [
            Site(component, layer, query, head, key)
            for layer, head, query in product(layers, range(model.cfg.n_heads), range(positions))
            for key in range(query + 1 if causal else positions)
        ]
    heads: Sequence[int | None] = [None]
    if component in (*BY_HEAD_AND_POSITION, "pattern"):
        heads = range(key_heads(model) if component in ("k", "v") else model.cfg.n_heads)
    return [Site(component, layer, p, head) for layer, head, p in product(layers, heads, at)]
