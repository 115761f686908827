"""Edges by gradients: what each edge does, estimated from backward passes alone.

The effect of an edge is estimated by the change of what its sender wrote times the gradient of the
metric at its receiver's input. No tensor here has an axis for edges and one for d_model. What heads
wrote is kept as z, and is mapped to the stream one layer at a time. Gradients at the inputs of
heads are made from those at their queries, keys and values, also one layer at a time. Words and
integration steps are taken in as many parts as the memory asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric, ReadAt
from interp.circuits.edges import projected
from interp.circuits.gim import Hook, gim_hooks
from interp.circuits.graph import SLOTS, Graph
from interp.model import ReadableModel

Gradient = Literal["EAP", "GIM", "EAP-IG", "conductance"]


def attribute(
    model: ReadableModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    metric: Metric,
    method: Gradient,
    shares: Float[Tensor, " point"],
    memory: int = 2**28,
) -> Float[Tensor, "edge pair"]:
    """The estimated change of the metric, clean minus corrupted, along each edge.

    Args:
        method: see ``interp.circuits.effects.edge_effects``.
        shares: points where gradients are taken: mixtures of the embeddings with so much of the
            clean word. They must lie evenly and stand for equal parts of the way from 0 to 1 for
            "EAP-IG" and "conductance".
        memory: bytes for the activations of the words that are run at a time. Words whose metric is
            no ``ReadAt`` are run together, because such a metric reads all of them.
    """
    graph, hooks = Graph.of(model), gim_hooks(model) if method == "GIM" else []
    at_once = max(1, memory // _bytes_of_a_word(model, clean.shape[1]))
    words = torch.arange(len(clean)).split(at_once if isinstance(metric, ReadAt) else len(clean))
    totals = []
    for some in words:
        read = metric.among(some) if isinstance(metric, ReadAt) else metric
        ends = [_trace(model, graph, tokens[some]) for tokens in (corrupted, clean)]
        total = torch.zeros(len(graph.edges), len(some), device=clean.device)
        for points in shares.split(max(1, at_once // len(some))):
            step = 1 / len(shares)
            change = ends[1].less(ends[0])
            if method == "conductance":
                around = torch.cat([points - step / 2, points[-1:] + step / 2])
                change = _trace(model, graph, corrupted[some], _mixed(ends, around)).steps(
                    len(some)
                )
            run = _trace(model, graph, corrupted[some], _mixed(ends, points), read, hooks)
            with model.hooks(fwd_hooks=hooks) if hooks else nullcontext():
                scores = _scores(model, graph, run, change, len(points))
            total = total.to(scores) + scores * (1 if method == "conductance" else step)
        totals.append(total)
    return torch.cat(totals, dim=1)


def _bytes_of_a_word(model: ReadableModel, length: int) -> int:
    """About what the graph of one forward pass, and the gradients at the heads' inputs, take."""
    cfg = model.cfg
    stream = cfg.d_model * (24 * cfg.n_layers + 8 * cfg.n_heads) + 4 * cfg.d_vocab
    numbers = length * (stream + 4 * cfg.n_layers * cfg.n_heads * length)
    return int(numbers * model.W_U.element_size())


@dataclass(repr=False)
class _Trace:
    """One run: what was written, what was read, and gradients.

    Attributes:
        embedding: the stream before the first block, [row, pos, d_model].
        z: the heads' outputs of each layer, [row, pos, head, d_head].
        mlps: the output of each layer's MLP, [row, pos, d_model].
        streams: the stream before each layer's heads ("pre") and before its MLP ("mid").
        gradients: gradients of the metric's sum by each reader's activation: queries, keys or
            values [row, pos, head, d_head], the MLP's output, the last stream.
    """

    embedding: Tensor
    z: list[Tensor] = field(default_factory=list)
    mlps: list[Tensor] = field(default_factory=list)
    streams: dict[tuple[int, str], Tensor] = field(default_factory=dict)
    gradients: dict[tuple[int, str], Tensor] = field(default_factory=dict)

    def less(self, other: _Trace) -> _Trace:
        """The difference of what was written in two runs."""
        pairs = [zip(getattr(self, k), getattr(other, k), strict=True) for k in ("z", "mlps")]
        z, mlps = ([a - b for a, b in pair] for pair in pairs)
        return _Trace(self.embedding - other.embedding, z, mlps)

    def steps(self, pairs: int) -> _Trace:
        """The change of what is written, from each point to the next."""
        parts = [self.embedding], self.z, self.mlps
        embedding, z, mlps = ([x[pairs:] - x[:-pairs] for x in part] for part in parts)
        return _Trace(embedding[0], z, mlps)

    def written(
        self, model: ReadableModel, count: int
    ) -> Iterator[Float[Tensor, "sender row pos d_model"]]:
        """Outputs of the first ``count`` senders, a layer's heads or another sender at a time."""
        yield self.embedding[None]
        count -= 1
        for layer, z in enumerate(self.z):
            if count <= 0:
                return
            W_O = model.blocks[layer].attn.W_O.detach()
            yield (z.movedim(2, 0).flatten(1, 2) @ W_O).unflatten(1, z.shape[:2])
            count -= z.shape[2]
            if count > 0 and self.mlps:
                yield self.mlps[layer][None]
                count -= 1


def _mixed(ends: list[_Trace], shares: Tensor) -> Float[Tensor, "row pos d_model"]:
    """Mixtures of the embeddings of the corrupted and the clean words, by point and by pair."""
    corrupted, clean = (end.embedding for end in ends)
    return (corrupted + shares.to(clean)[:, None, None, None] * (clean - corrupted)).flatten(0, 1)


def _trace(
    model: ReadableModel,
    graph: Graph,
    tokens: Int[Tensor, "pair pos"],
    embedding: Float[Tensor, "row pos d_model"] | None = None,
    metric: Metric | None = None,
    further: Sequence[tuple[str, Hook]] = (),
) -> _Trace:
    """One run of the words, or of copies of them with other embeddings.

    Args:
        metric: the metric whose gradients are taken; None takes none.
        further: hooks that are set after those that keep what is read.
    """
    copies = 1 if embedding is None else len(embedding) // len(tokens)
    trace, readers = _Trace(torch.empty(0)), dict[tuple[int, str], Tensor]()

    def begin(x: Tensor, hook: object) -> Tensor:
        x = (x if embedding is None else embedding).detach().requires_grad_(metric is not None)
        trace.embedding = x.detach()
        return x

    def keep(into: Callable[[Tensor], Any]) -> Hook:
        def hook(x: Tensor, hook: object) -> Tensor:
            into(x)
            return x  # a bridge may hand out a view, which lies on the way only if it is returned

        return hook

    def stream(layer: int, name: str) -> Hook:
        return keep(lambda x: trace.streams.update({(layer, name): x.detach()}))

    def reader(layer: int, slot: str) -> Hook:
        return keep(lambda x: readers.update({(layer, slot): x}))

    hooks: list[tuple[str, Hook]] = [("blocks.0.hook_resid_pre", begin)]
    for layer in range(graph.layers):
        name = f"blocks.{layer}."
        z = keep(lambda x: trace.z.append(x.detach().view(*x.shape[:2], graph.heads, -1)))
        hooks.append((f"{name}attn.hook_z", z))
        if metric is not None:
            hooks.append((name + "hook_resid_pre", stream(layer, "pre")))
            hooks += [(f"{name}attn.hook_{slot}", reader(layer, slot)) for slot in SLOTS]
        if graph.perceptrons:
            hooks.append((name + "hook_mlp_out", keep(lambda x: trace.mlps.append(x.detach()))))
            if metric is not None:
                if not graph.parallel:
                    hooks.append((name + "hook_resid_mid", stream(layer, "mid")))
                hooks.append((name + "hook_mlp_out", reader(layer, "mlp")))
    if metric is not None:
        last = f"blocks.{graph.layers - 1}.hook_resid_post"
        hooks.append((last, reader(graph.layers, "logits")))
    with torch.set_grad_enabled(metric is not None):
        logits = model.run_with_hooks(tokens.repeat(copies, 1), fwd_hooks=[*hooks, *further])
        if metric is not None:
            values = [metric(copy) for copy in logits.unflatten(0, (copies, -1))]
            gradients = torch.autograd.grad(
                torch.stack(values).sum(), list(readers.values()), materialize_grads=True
            )
            trace.gradients = dict(zip(readers, gradients, strict=True))
    return trace


def _scores(
    model: ReadableModel, graph: Graph, run: _Trace, change: _Trace, points: int
) -> Float[Tensor, "edge pair"]:
    """Change times gradient along each edge, summed over the points.

    Args:
        run: a run with gradients; rows by point and by pair.
        change: the senders' outputs in one run less another; rows as in ``run``, or by pair alone
            where the change is the same at all points.
    """
    pairs = len(run.embedding) // points
    effects: dict[str, Tensor] = {}

    def by_pair(x: Float[Tensor, "part row pos d_model"]) -> Float[Tensor, "pair part all"]:
        return x.unflatten(1, (-1, pairs)).movedim(2, 0).flatten(2)

    def at_inputs(layer: int, slot: str) -> Float[Tensor, "reader row pos d_model"]:
        gradient = _at_input(model, graph, run, layer, slot)
        if len(change.embedding) > pairs:
            return gradient
        return gradient.unflatten(1, (points, pairs)).sum(dim=1)

    for _, together in groupby(run.gradients, lambda at: (at[0], at[1] in SLOTS)):
        slots = list(together)  # queries, keys and values of a layer read what was written once
        gradients = by_pair(torch.cat([at_inputs(*slot) for slot in slots]))
        receivers = [receiver for slot in slots for receiver in graph.into(*slot)]
        scores = [  # products of matrices, not einsum, which takes ten times as long here
            gradients @ by_pair(block).mT
            for block in change.written(model, graph.receivers[receivers[0]])
        ]
        effects |= dict(zip(receivers, torch.cat(scores, dim=2).movedim(0, 2), strict=True))
    return torch.cat([effects[receiver] for receiver in graph.receivers])


def _at_input(
    model: ReadableModel, graph: Graph, run: _Trace, layer: int, slot: str
) -> Float[Tensor, "reader row pos d_model"]:
    """The gradient at the input of each reader, before its norm."""
    gradient = run.gradients[layer, slot]
    if slot == "logits":
        return gradient[None]
    block, readers = model.blocks[layer], gradient.shape[2] if slot in SLOTS else 1
    stream = run.streams[layer, "pre" if slot in SLOTS or graph.parallel else "mid"]
    with torch.enable_grad():
        x = stream.expand(readers, *stream.shape).requires_grad_()
        if slot in SLOTS:
            out = projected(model, layer, slot, x)
        else:
            out = block.mlp(getattr(block, "ln2", block.ln1)(x[0]))  # parallel: may share ln1
        return torch.autograd.grad(out, x, gradient.view_as(out))[0]
