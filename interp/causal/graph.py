"""The graph of a Transformer: its parts, and the edges from what writes to what reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from interp.model import ReadableModel

SLOTS = ("q", "k", "v")


class Edge(NamedTuple):
    """From what writes ("embed", "L0H1", "L0 mlp") to what reads ("L1H0.k", "L1 mlp", "logits")."""

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


@dataclass(frozen=True)
class Graph:
    """The parts of a model, each in the order of computation.

    Attributes:
        layers, heads: how many layers, and how many heads in each.
        perceptrons: whether the blocks have MLPs.
    """

    layers: int
    heads: int
    perceptrons: bool

    @classmethod
    def of(cls, model: ReadableModel) -> Graph:
        """The graph of a model. Raises ValueError for a model without attention."""
        if "blocks.0.attn.hook_z" not in model.hook_dict:
            raise ValueError("edges need attention heads: choose a model that has some")
        cfg = model.cfg
        return cls(cfg.n_layers, cfg.n_heads, "blocks.0.hook_mlp_out" in model.hook_dict)

    @cached_property
    def senders(self) -> tuple[str, ...]:
        names = ["embed"]
        for layer in range(self.layers):
            names += [f"L{layer}H{head}" for head in range(self.heads)]
            names += [f"L{layer} mlp"] if self.perceptrons else []
        return tuple(names)

    def before(self, layer: int, mlp: bool = False) -> int:
        """How many senders wrote before a layer's heads, or before its MLP, read."""
        return 1 + layer * (self.heads + self.perceptrons) + (self.heads if mlp else 0)

    @cached_property
    def receivers(self) -> dict[str, int]:
        """The receivers, each with the number of senders before it."""
        names: dict[str, int] = {}
        for layer in range(self.layers):
            for head in range(self.heads):
                names |= {f"L{layer}H{head}.{slot}": self.before(layer) for slot in SLOTS}
            if self.perceptrons:
                names[f"L{layer} mlp"] = self.before(layer, mlp=True)
        return names | {"logits": len(self.senders)}

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, by receiver and then by sender."""
        return tuple(
            Edge(sender, receiver)
            for receiver, count in self.receivers.items()
            for sender in self.senders[:count]
        )

    @cached_property
    def rows(self) -> dict[str, slice]:
        """Where the edges into each receiver stand in ``edges``."""
        rows, start = {}, 0
        for receiver, count in self.receivers.items():
            rows[receiver] = slice(start, start + count)
            start += count
        return rows

    def into(self, layer: int, slot: str) -> list[str]:
        """The receivers that read together: a slot of all heads, one MLP, or the logits."""
        if slot in SLOTS:
            return [f"L{layer}H{head}.{slot}" for head in range(self.heads)]
        return ["logits" if slot == "logits" else f"L{layer} mlp"]
