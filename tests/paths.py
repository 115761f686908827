"""Path patching by hand, on a plain model of ``transformers``: the oracle of the edge lenses."""

from __future__ import annotations

from collections.abc import Callable

import torch
from bridges import LAYERS, Change, Place, Plain
from torch import Tensor

from interp.circuits.graph import Graph


def writes(plain: Plain, tokens: Tensor) -> Tensor:
    """What the embedding, every head and every MLP write: [sender, batch, pos, d_model]."""
    places = [("resid_pre", 0)]
    places += [(name, layer) for layer in range(LAYERS) for name in ("z", "mlp_out")]
    found = plain.reading(tokens, *places)
    parts = [found["resid_pre", 0]]
    for layer in range(LAYERS):
        parts += torch.einsum("bphd,hdm->hbpm", found["z", layer], plain.W_O(layer))
        parts += [found["mlp_out", layer]]
    return torch.stack(parts)


def edge_run(
    plain: Plain,
    graph: Graph,
    tokens: Tensor,
    source: Tensor,
    share: Tensor,
    start: Tensor | None = None,
    constant: Tensor | None = None,
) -> Tensor:
    """The logits when each edge carries a share of another run's activation.

    Args:
        source: what the senders wrote in the other run.
        share: [edge, pair], 0 to 1.
        start: takes the place of the stream before the first block.
        constant: what an edge adds for each sender, where it is not source minus what is written.
    """
    now: list[Tensor] = []
    stream: dict[str, Tensor] = {}

    def added(receiver: str) -> Tensor:
        own = share[graph.rows[receiver]]
        change = source[: len(own)] - torch.stack(now[: len(own)]) if constant is None else constant
        return (own[:, :, None, None] * change[: len(own)]).sum(dim=0)

    def begin(x: Tensor) -> None:
        if start is not None:
            x[:] = start
        now.append(x.clone())
        stream["pre"] = stream["mid"] = x.clone()

    def pre(x: Tensor) -> None:
        stream["pre"] = stream["mid"] = x.clone()

    def read(layer: int, slot: str) -> Change:
        def change(x: Tensor) -> None:
            for index, receiver in enumerate(graph.into(layer, slot)):
                normed = plain.norm(layer, 0)(stream["pre"] + added(receiver))
                x[:, :, index] = projection(plain, layer, slot)(normed)[:, :, index]

        return change

    def attended(layer: int) -> Change:
        return lambda z: now.extend(torch.einsum("bphd,hdm->hbpm", z, plain.W_O(layer)))

    def mid(x: Tensor) -> None:
        if not plain.parallel:
            stream["mid"] = stream["pre"] + x

    def mlp(layer: int) -> Change:
        def change(x: Tensor) -> None:
            x[:] = plain.norm(layer, 1)(stream["mid"] + added(f"L{layer} mlp"))

        return change

    def last(x: Tensor) -> None:
        x += added("logits")

    changes: dict[Place, Change] = {}
    for layer in range(LAYERS):
        changes["resid_pre", layer] = begin if layer == 0 else pre
        changes |= {(slot, layer): read(layer, slot) for slot in "qkv"}
        changes |= {("z", layer): attended(layer), ("attn_out", layer): mid}
        changes |= {("mlp_in", layer): mlp(layer)}
        changes["mlp_out", layer] = lambda x: now.append(x.clone())
    changes["resid_post", LAYERS - 1] = last
    return plain.run(tokens, changes)


def projection(plain: Plain, layer: int, slot: str) -> Callable[[Tensor], Tensor]:
    """Queries, keys or values of a normed stream, by head or group."""
    module = getattr(plain.attention(layer), plain.names.fused or f"{slot}_proj")
    weight = module.weight if plain.names.fused == "c_attn" else module.weight.T

    def project(x: Tensor) -> Tensor:
        out = x @ weight
        return plain.view(out if module.bias is None else out + module.bias, slot)

    return project
