"""The graph of a Transformer: its parts, and the edges from what writes to what reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from interp.model import ReadableModel
from interp.weights import key_heads

SLOTS = ("q", "k", "v")


class Edge(NamedTuple):
    """From a sender ("embed", "L0H1", "L0 mlp") to a receiver ("L1H0.k", "L1 mlp", "logits").

    With grouped queries, the heads of a group read one key and value: "L1H0-1.k" are those of heads
    0 to 1.
    """

    sender: str
    receiver: str

    def __str__(self) -> str:
        return f"{self.sender} -> {self.receiver}"


def parts_of(receiver: str) -> list[str]:
    """The parts that read there: a group of heads for its keys or values, or a single part."""
    part = receiver.split(".")[0]
    layer, _, heads = part.partition("H")
    first, _, last = heads.partition("-")
    return [f"{layer}H{head}" for head in range(int(first), int(last) + 1)] if last else [part]


@dataclass(frozen=True)
class Graph:
    """The parts of a model, each in the order of computation.

    Attributes:
        layers, heads: number of layers, and of heads in each.
        perceptrons: whether the blocks have MLPs.
        group: number of heads that share their keys and values.
        parallel: whether attention and MLP of a block read the same stream. Then no edge leads from
            a head to the MLP of its own layer.
    """

    layers: int
    heads: int
    perceptrons: bool
    group: int = 1
    parallel: bool = False

    @classmethod
    def of(cls, model: ReadableModel) -> Graph:
        """The graph of a model. Raises ValueError for a model without attention."""
        if "blocks.0.attn.hook_z" not in model.hook_dict:
            raise ValueError("edges need attention heads: choose a model that has some")
        cfg = model.cfg
        perceptrons = "blocks.0.hook_mlp_out" in model.hook_dict
        parallel = bool(getattr(cfg, "parallel_attn_mlp", False))
        return cls(
            cfg.n_layers, cfg.n_heads, perceptrons, cfg.n_heads // key_heads(model), parallel
        )

    @cached_property
    def senders(self) -> tuple[str, ...]:
        names = ["embed"]
        for layer in range(self.layers):
            names += [f"L{layer}H{head}" for head in range(self.heads)]
            names += [f"L{layer} mlp"] if self.perceptrons else []
        return tuple(names)

    def before(self, layer: int, mlp: bool = False) -> int:
        """The number of senders that wrote before a layer's heads, or before its MLP, read."""
        heads = self.heads if mlp and not self.parallel else 0
        return 1 + layer * (self.heads + self.perceptrons) + heads

    @cached_property
    def receivers(self) -> dict[str, int]:
        """The receivers, each with the number of senders before it."""
        names: dict[str, int] = {}
        for layer in range(self.layers):
            q, k, v = (self.into(layer, slot) for slot in SLOTS)
            for group, shared in enumerate(zip(k, v, strict=True)):
                queries = q[group * self.group : (group + 1) * self.group]
                names |= dict.fromkeys([*queries, *shared], self.before(layer))
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
            step = 1 if slot == "q" else self.group
            firsts = range(0, self.heads, step)
            upto = [f"-{first + step - 1}" if step > 1 else "" for first in firsts]
            return [f"L{layer}H{f}{last}.{slot}" for f, last in zip(firsts, upto, strict=True)]
        return ["logits" if slot == "logits" else f"L{layer} mlp"]
