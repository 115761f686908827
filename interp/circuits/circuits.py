"""Circuits: a small set of edges that does what the model does, and how good a set of edges is.

A circuit is a set of edges of the graph in ``interp.circuits.graph``. When it runs, every edge
outside it carries an ablated activation: that of the corrupted word ("resample"), the mean over the
corrupted words at the same position ("mean"), or zero ("zero"). With m the metric averaged over the
words,

    faithfulness = (m(circuit) - m(no edge)) / (m(all edges) - m(no edge))

is 1 if the circuit alone does what the model does. This is noising: the clean run, with every edge
outside the circuit ablated. Completeness, as Marks et al. (2024) define it, is 1 - faithfulness of
all edges outside: what is lost when the circuit is knocked out of the model. Wang et al. (2022)
call another thing completeness, which ``interp.circuits.needs`` measures. The third number is
denoising: what is restored in the corrupted run where the circuit's edges carry clean activations.

Over circuits of growing size, CPR (circuit performance ratio) is the area under the faithfulness,
and CMD (circuit-model distance) is the area between the faithfulness and 1, as the MIB benchmark
(Mechanistic Interpretability Benchmark) defines them (Mueller et al. 2025).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from interp.causal.metrics import Metric
from interp.circuits.edges import edge_metric, writes
from interp.circuits.graph import Edge, Graph, parts_of
from interp.model import ReadableModel
from interp.statistics import bootstrap_mean

Ablation = Literal["resample", "mean", "zero"]
FRACTIONS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Sizes of circuits, as shares of all edges: those of the MIB benchmark, and 0."""

Report = Callable[[int, int], None]


def _quiet(done: int, total: int) -> None:
    pass


@dataclass(frozen=True)
class Bench:
    """A bench on which circuits are measured: a model, pairs of words, a metric and an ablation.

    Attributes:
        model: the model whose circuits are measured.
        clean: words on which a circuit should do what the model does.
        corrupted: words from which ablated activations come; row i of both is a pair.
        metric: one number per word.
        ablation: the activation that edges outside a circuit carry.
        memory: bytes that a measurement may take.
    """

    model: ReadableModel
    clean: Int[Tensor, "pair pos"]
    corrupted: Int[Tensor, "pair pos"]
    metric: Metric
    ablation: Ablation = "resample"
    memory: int = 2**28

    @cached_property
    def source(self) -> Float[Tensor, "sender pair pos d_model"]:
        """The ablated activations. Raises ValueError for a model that has no edges (``writes``)."""
        written = writes(self.model, self.corrupted)
        if self.ablation == "mean":
            return written.mean(dim=1, keepdim=True).expand_as(written)
        return torch.zeros_like(written) if self.ablation == "zero" else written

    @cached_property
    def written(self) -> Float[Tensor, "sender pair pos d_model"]:
        """The senders' outputs in the clean run."""
        return writes(self.model, self.clean)

    @cached_property
    def ends(self) -> Float[Tensor, "two pair"]:
        """The metric with no edge and with all edges."""
        return self.measure(torch.tensor([[False], [True]]).expand(2, len(self.graph.edges)))

    @property
    def graph(self) -> Graph:
        return Graph.of(self.model)

    def measure(self, circuits: Bool[Tensor, "circuit edge"]) -> Float[Tensor, "circuit pair"]:
        """The metric of each circuit on each clean word.

        Args:
            circuits: True for the edges inside, in the order of ``Graph.edges``.
        """
        outside = (~circuits).to(self.source)
        return edge_metric(
            self.model, self.clean, self.source, outside, self.metric, self.memory
        ).double()

    def faithfulness(
        self, circuits: Bool[Tensor, "circuit edge"]
    ) -> Float[np.ndarray, "circuit pair"]:
        """Each pair's part in the faithfulness of each circuit; its mean over pairs is that.

        A pair's part is its own gain divided by the mean gain of all edges over all pairs. So pairs
        that the model hardly tells apart do not blow up.
        """
        nothing, everything = self.ends
        gain = (self.measure(circuits) - nothing) / (everything - nothing).mean()
        return gain.cpu().numpy()

    def restored(self, circuits: Bool[Tensor, "circuit edge"]) -> Float[np.ndarray, "circuit pair"]:
        """Each pair's part in what circuits restore; the mean over pairs is 1 if it is all.

        The corrupted word is run; the edges of the circuit carry the clean word's activations.
        """
        with torch.inference_mode():
            ends = [self.metric(self.model(some)).double() for some in (self.corrupted, self.clean)]
        inside, source = circuits.to(self.written), self.written
        restored = edge_metric(self.model, self.corrupted, source, inside, self.metric, self.memory)
        return ((restored.double() - ends[0]) / (ends[1] - ends[0]).mean()).cpu().numpy()


def ranked(scores: Mapping[Edge, float], graph: Graph, absolute: bool = True) -> list[int]:
    """Indices into ``graph.edges``, the highest score first; an edge without a score counts as 0.

    Args:
        absolute: rank by the size of the scores, whatever their sign.
    """
    values = np.array([scores.get(edge, 0.0) for edge in graph.edges])
    values = np.nan_to_num(np.abs(values) if absolute else values)
    return np.argsort(-values, kind="stable").tolist()


def _first_edges(order: Sequence[int], sizes: Sequence[int]) -> Bool[Tensor, "size edge"]:
    """One circuit per size: the first ``size`` edges of the order; True inside."""
    place = torch.empty(len(order), dtype=torch.long)
    place[torch.tensor(order)] = torch.arange(len(order))
    return place[None] < torch.tensor(sizes)[:, None]


def connected(circuit: Collection[Edge]) -> set[Edge]:
    """The edges of a circuit that lie on a way from the embedding to the logits inside it."""
    edges = set(circuit)
    while True:
        written = {part for edge in edges for part in parts_of(edge.receiver)} | {"embed"}
        read = {edge.sender for edge in edges} | {"logits"}
        alive = {
            edge
            for edge in edges
            if edge.sender in written and not read.isdisjoint(parts_of(edge.receiver))
        }
        if alive == edges:
            return edges
        edges = alive


@dataclass(frozen=True)
class Quality:
    """The quality of a circuit on the pairs of a bench.

    Attributes:
        edges: the edges inside the circuit.
        of: number of edges of the model.
        pairs: number of pairs over which the numbers are means.
        faithfulness: faithfulness of the circuit; 1 is as the whole model, 0 as no edge at all.
        low, high: the 95% bootstrap interval of the faithfulness over pairs.
        completeness: 1 - the faithfulness of all edges outside (Marks et al. 2024): what is lost
            when the circuit is knocked out of the model.
        restored: the share that its clean activations restore in the corrupted run; 1 is all. The
            edges into the logits may be enough for it.
    """

    edges: tuple[Edge, ...]
    of: int
    pairs: int
    faithfulness: float
    low: float
    high: float
    completeness: float
    restored: float

    @classmethod
    def on(cls, bench: Bench, circuit: Collection[Edge]) -> Quality:
        """Measures a circuit; the pairs should be others than those on which it was found."""
        edges = bench.graph.edges
        inside = torch.tensor([[edge in circuit for edge in edges]])
        gains, rest = bench.faithfulness(torch.cat([inside, ~inside]))
        mean, low, high = (float(value) for value in bootstrap_mean(gains))
        lost, won = 1 - float(rest.mean()), float(bench.restored(inside).mean())
        return cls(tuple(circuit), len(edges), len(gains), mean, low, high, lost, won)


def curve(bench: Bench, scores: Mapping[Edge, float]) -> pd.DataFrame:
    """Faithfulness and completeness of the circuits of the highest scores, by size.

    Returns:
        One row per order and size: order ("absolute" or "signed" scores), edges (how many), share
        (of all edges), faithfulness, completeness (NaN for "signed"). The sizes of "signed" are
        ``FRACTIONS`` alone.
    """
    graph = bench.graph
    total = len(graph.edges)
    marked = {round(fraction * total) for fraction in FRACTIONS}
    fine = {1, 2, 4, 8, *(round(total * k / 12) for k in range(13))}
    sizes = sorted(marked | {size for size in fine if size <= total})
    circuits = _first_edges(ranked(scores, graph), sizes)
    signed = _first_edges(ranked(scores, graph, absolute=False), sorted(marked))
    value = bench.faithfulness(torch.cat([circuits, ~circuits, signed])).mean(axis=1)
    gains, rest, other = np.split(value, [len(sizes), 2 * len(sizes)])
    absolute = pd.DataFrame({"edges": sizes, "faithfulness": gains, "completeness": 1 - rest})
    by_sign = pd.DataFrame({"edges": sorted(marked), "faithfulness": other})
    table = pd.concat([absolute.assign(order="absolute"), by_sign.assign(order="signed")])
    table["share"] = table["edges"] / total
    columns = ["order", "edges", "share", "faithfulness", "completeness"]
    return table[columns].reset_index(drop=True)


def areas(table: pd.DataFrame) -> dict[str, float]:
    """CPR (higher is better) and CMD (0 is best) of a ``curve``, by the trapezoid rule.

    CPR ranks by signed scores, so that edges that help come first. CMD ranks by the size of scores,
    so that edges that matter come first. Both take ``FRACTIONS`` of the edges, rounded to whole
    edges.
    """
    total = table["edges"].max()
    sizes = {round(fraction * total) for fraction in FRACTIONS}
    points = {
        order: rows[rows["edges"].isin(sizes)].drop_duplicates("edges")
        for order, rows in table.groupby("order")
    }
    signed, absolute = points["signed"], points["absolute"]
    return {
        "CPR": float(np.trapezoid(signed["faithfulness"], signed["share"])),
        "CMD": float(np.trapezoid((1 - absolute["faithfulness"]).abs(), absolute["share"])),
    }


def smallest(
    bench: Bench, scores: Mapping[Edge, float], goal: float = 0.95, report: Report = _quiet
) -> list[Edge]:
    """A small circuit whose faithfulness lies within ``goal`` .. 2 - ``goal``.

    The search starts from the shortest front of the ranking that reaches the goal, without edges
    that lead nowhere. Then each edge is left out in turn, the lowest score first, and stays out if
    the goal still holds. This is one greedy pass: another order may find a smaller circuit.

    Args:
        scores: scores of the edges; they are ranked by size, whatever their sign.
        goal: at most 1.
        report: is called with (edges tried, edges to try) in the second part.

    Returns:
        Its edges, in the order of the graph; all edges if no fewer are faithful enough.
    """
    graph = bench.graph
    order = ranked(scores, graph)
    total = len(order)

    def good(circuits: Bool[Tensor, "circuit edge"]) -> Bool[np.ndarray, " circuit"]:
        return np.abs(bench.faithfulness(circuits).mean(axis=1) - 1) <= 1 - goal

    sizes = list(range(1, total + 1))
    reached = total
    for start in range(0, total, 16):
        some = sizes[start : start + 16]
        enough = np.flatnonzero(good(_first_edges(order, some)))
        if len(enough):
            reached = some[enough[0]]
            break
    alive = connected([graph.edges[index] for index in order[:reached]])
    inside = torch.tensor([edge in alive for edge in graph.edges])
    weakest_first = [index for index in reversed(order) if inside[index]]
    for done, index in enumerate(weakest_first):
        report(done, len(weakest_first))
        without = inside.clone()
        without[index] = False
        if good(without[None])[0]:
            inside = without
    kept = {edge for edge, stays in zip(graph.edges, inside.tolist(), strict=True) if stays}
    alive = connected(kept)  # edges that later ones cut off; only "resample" makes them idle
    if good(torch.tensor([[edge in alive for edge in graph.edges]]))[0]:
        kept = alive
    return [edge for edge in graph.edges if edge in kept]
