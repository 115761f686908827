"""Edges: what does one part of a Transformer read of what another one wrote?

The residual stream before a part is the sum of the embedding and of all that the heads and MLPs
before it wrote. So every part that reads (a head's queries, keys and values, an MLP, the logits)
has an edge from every part before it, and an edge can carry an activation of another run than the
rest of the model does. To patch one edge alone is direct path patching (Wang et al. 2022;
Goldowsky-Dill et al. 2023): the receiver reads the sender's clean activation, every other part
reads its corrupted one.

All of this uses hooks and the blocks' own norms, weights and MLPs, so that it runs on our models
and on a ``TransformerBridge`` alike. It needs pre-norm blocks: with other norms the stream is not a
sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.circuits.graph import SLOTS, Graph
from interp.model import ReadableModel, require
from interp.weights import output_bias

Written = Float[Tensor, "sender batch pos d_model"]
Edit = Callable[[int, str, Written], Float[Tensor, "reader batch pos d_model"] | None]
"""A function of a layer, a slot ("q", "k", "v", "mlp" or "logits") and what was written so far. It
returns what is added to the input of each reader there; None adds nothing."""


def _nothing(layer: int, slot: str, written: Tensor) -> None:
    return None


def _run(
    model: ReadableModel,
    tokens: Int[Tensor, "batch pos"],
    edit: Edit = _nothing,
) -> tuple[Float[Tensor, "batch pos d_vocab"], Written, Float[Tensor, "batch pos d_model"]]:
    """The logits, what every sender wrote, and the last stream, with edited inputs."""
    watched = _Pass(model, Graph.of(model), edit)
    logits = model.run_with_hooks(tokens, fwd_hooks=watched.hooks())
    return logits, watched.before(), watched.streams["last"]


def projected(
    model: ReadableModel, layer: int, slot: str, streams: Float[Tensor, "reader row pos d_model"]
) -> Float[Tensor, "row pos reader d_head"]:
    """Queries, keys or values of a layer; each reader (a head) has a stream of its own."""
    block = model.blocks[layer]
    normed = block.ln1(streams)
    weight = getattr(block.attn, f"W_{slot.upper()}")
    new = (normed.flatten(1, 2) @ weight).view(*normed.shape[:3], -1).movedim(0, 2)
    bias = getattr(block.attn, f"b_{slot.upper()}", None)
    new = new if bias is None else new + bias
    steps = getattr(block.attn, "values", None) if slot == "v" else None
    return new if steps is None else steps(new)


@dataclass(repr=False)  # TransformerLens writes each hook down, and what it belongs to
class _Pass:
    """One forward pass: its hooks note what is written and give readers their edited inputs."""

    model: ReadableModel
    graph: Graph
    edit: Edit
    written: list[Tensor] = field(default_factory=list)
    streams: dict[str, Tensor] = field(default_factory=dict)
    busy: bool = False  # set while an edit calls an MLP again, whose hook must then do nothing

    def hooks(self) -> list[tuple[str, Callable[..., Any]]]:
        hooks: list[tuple[str, Callable[..., Any]]] = [("blocks.0.hook_resid_pre", self.begin)]
        for layer in range(self.graph.layers):
            name = f"blocks.{layer}."
            hooks += [(name + "hook_resid_pre", self.seen("pre"))]
            hooks += [(f"{name}attn.hook_{slot}", self.read(layer, slot)) for slot in SLOTS]
            hooks += [(name + "attn.hook_z", self.attended(layer))]
            if self.graph.perceptrons:
                hooks += [(f"{name}hook_resid_mid", self.seen("mid"))] * (not self.graph.parallel)
                hooks += [(name + "hook_mlp_out", self.transformed(layer))]
        return [*hooks, (f"blocks.{self.graph.layers - 1}.hook_resid_post", self.finish)]

    def before(self) -> Written:
        """The outputs of all senders so far."""
        if len(self.written) > 1:  # joined once, however many parts read it
            self.written[:] = [torch.cat(self.written)]
        return self.written[0]

    def begin(self, x: Tensor, hook: object) -> None:
        self.written.append(x[None])

    def seen(self, name: str) -> Callable[[Tensor, object], None]:
        def keep(x: Tensor, hook: object) -> None:
            self.streams[name] = x

        return keep

    def read(self, layer: int, slot: str) -> Callable[[Tensor, object], Tensor | None]:
        """Queries, keys or values, computed again if their input is edited."""

        def project(old: Tensor, hook: object) -> Tensor | None:
            added = self.edit(layer, slot, self.before())
            if added is None:
                return None
            return projected(self.model, layer, slot, self.streams["pre"] + added)

        return project

    def attended(self, layer: int) -> Callable[[Tensor, object], None]:
        """Notes what the heads wrote."""

        def keep(z: Tensor, hook: object) -> None:
            z = z.view(*z.shape[:2], self.graph.heads, -1).movedim(2, 0)
            W_O = self.model.blocks[layer].attn.W_O
            self.written.append((z.flatten(1, 2) @ W_O).view(*z.shape[:3], -1))

        return keep

    def transformed(self, layer: int) -> Callable[[Tensor, object], Tensor | None]:
        """Notes what the MLP wrote, which is computed again if its input is edited."""

        def replace(out: Tensor, hook: object) -> Tensor | None:
            if self.busy:
                return None
            added = self.edit(layer, "mlp", self.before())
            if added is not None:
                block, self.busy = self.model.blocks[layer], True
                stream = self.streams["pre" if self.graph.parallel else "mid"] + added[0]
                out = block.mlp(getattr(block, "ln2", block.ln1)(stream))  # parallel: may share ln1
                self.busy = False
            self.written.append(out[None])
            return out

        return replace

    def finish(self, x: Tensor, hook: object) -> Tensor | None:
        self.streams["last"] = x
        added = self.edit(self.graph.layers, "logits", self.before())
        return None if added is None else x + added[0]


@torch.no_grad()
def writes(
    model: ReadableModel, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "sender batch pos d_model"]:
    """The output of every sender into the residual stream, in the order of ``Graph.senders``.

    Raises:
        ValueError: the stream is not the sum of these, as with post-norm or sandwich norms; or it
            holds NaN or infinity; or the model is no ``ReadableModel`` or has no attention; or what
            its parts read cannot be computed anew.
    """
    require(model, ReadableModel)
    logits, written, last = _run(model, tokens)
    bias = sum(output_bias(block.attn) for block in model.blocks)
    missed = (written.sum(dim=0) + bias - last).abs()
    if not missed.isfinite().all():
        raise ValueError("the model's stream is not finite: choose a model with sound weights")
    # What was written may be large and cancel: its rounding is no reason to blame the norm.
    if (missed > 1e-3 * (1 + written.abs().sum(dim=0))).any():
        raise ValueError(
            "edges need a residual stream to which every part adds what it wrote; this model has "
            "none, or other norms than pre-norm, or scales or gates: choose a pre-norm model"
        )
    _require_same(model, tokens[:1], logits[:1])
    return written


def _require_same(
    model: ReadableModel,
    tokens: Int[Tensor, "one pos"],
    logits: Float[Tensor, "one pos d_vocab"],
) -> None:
    """Raises ValueError unless all parts, computed anew from unchanged inputs, give the logits."""
    graph = Graph.of(model)

    def edit(layer: int, slot: str, written: Tensor) -> Tensor:
        return torch.zeros_like(written[0]).expand(len(graph.into(layer, slot)), -1, -1, -1)

    fault: Exception | None = None
    try:
        again, _, _ = _run(model, tokens, edit)
        if ((again - logits).abs() <= 1e-3 * (1 + logits.abs())).all():
            return
    except (
        RuntimeError,
        TypeError,
    ) as error:  # some bridges have an MLP that the block alone calls
        fault = error
    raise ValueError(
        f"edges compute queries, keys, values and MLPs anew, and {type(model).__name__} gives "
        "other logits or none when they do: patch activations instead"
    ) from fault


def run_with_edges(
    model: ReadableModel,
    tokens: Int[Tensor, "pair pos"],
    source: Float[Tensor, "sender pair pos d_model"],
    replaced: Float[Tensor, "copy edge"],
) -> Float[Tensor, "copy pair pos d_vocab"]:
    """Logits of a run in which some edges carry the activations of another run.

    Args:
        tokens: the words of this run, with BOS.
        source: the senders' outputs in the other run, as ``writes`` returns it.
        replaced: the share of the other run in each of ``Graph.edges``, for each copy of the batch:
            1 is the other run's activation, 0 this run's own, in between a mixture.

    Raises:
        ValueError: the model has no attention.
    """
    graph, copies = Graph.of(model), len(replaced)
    replaced = replaced.to(source)

    def edit(layer: int, slot: str, written: Tensor) -> Tensor | None:
        share = torch.stack([replaced[:, graph.rows[r]] for r in graph.into(layer, slot)], dim=1)
        if not share.any():
            return None
        count = share.shape[-1]
        change = source[:count, None] - written[:count].unflatten(1, (copies, -1))
        added = share @ change.flatten(2).transpose(0, 1)  # [copy, reader, pair pos d_model]
        return added.transpose(0, 1).reshape(-1, *written.shape[1:])

    logits, _, _ = _run(model, tokens.repeat(copies, 1), edit)
    return logits.view(copies, *tokens.shape, -1)


def edge_metric(
    model: ReadableModel,
    tokens: Int[Tensor, "pair pos"],
    source: Float[Tensor, "sender pair pos d_model"],
    replaced: Float[Tensor, "copy edge"],
    metric: Metric,
    memory: int = 2**28,
) -> Float[Tensor, "copy pair"]:
    """The metric of ``run_with_edges``, as many copies at a time as the memory (bytes) allows."""
    # A copy holds the changes, what was written, its concatenation, and the inputs of a layer.
    at_once = max(1, memory // (8 * source.numel() * source.element_size()))
    with torch.inference_mode():
        return torch.cat(
            [
                torch.stack([metric(copy) for copy in run_with_edges(model, tokens, source, some)])
                for some in replaced.split(at_once)
            ]
        )
