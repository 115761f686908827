"""Effects of each edge alone, exactly and by estimates; each effect says its direction.

- **noising**: the clean run, in which one edge carries the corrupted activation. The effect is what
  is lost. Circuits are judged in this direction too (``interp.circuits.circuits``).
- **denoising**: the corrupted run, in which one edge carries the clean activation. The effect is
  what is won.

The two differ wherever edges work together. If each of two edges is enough, noising one loses
nothing and denoising one wins all; if both are needed, it is the other way round (Heimersheim and
Nanda 2024). ``interp.circuits.joint`` measures pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import one_hot

from interp.causal.metrics import Metric
from interp.circuits.attribution import Gradient, attribute
from interp.circuits.edges import edge_metric, writes
from interp.circuits.graph import Graph
from interp.model import ReadableModel

Direction = Literal["noising", "denoising"]
Method = Literal["exact", "EAP", "GIM", "EAP-IG", "conductance"]
METHODS: tuple[Method, ...] = get_args(Method)
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
DIRECTED = ("exact", "EAP", "GIM")
"""The others take gradients on all the way between the two runs: they have no direction."""
BOTH = "both"

FIRST_STEPS, MOST_STEPS = 5, 160
STABLE = 0.98
"""Steps are doubled until the ranking is so stable (see ``stability``)."""


def edge_effects(
    model: ReadableModel,
    clean: Int[Tensor, "pair pos"],
    corrupted: Int[Tensor, "pair pos"],
    metric: Metric,
    methods: Sequence[Method] = METHODS,
    directions: Sequence[Direction] = ("noising",),
    *,
    steps: int | None = None,
    memory: int = 2**28,
) -> pd.DataFrame:
    """The effect of each edge alone, exactly and by four approximations.

    - "exact": direct path patching of every edge (Wang et al. 2022); many edges share one forward
      pass.
    - "EAP", edge attribution patching (Syed et al. 2023): the change of what the sender wrote
      (clean minus corrupted) times the metric's gradient at the receiver's input, in the clean run
      if noising and in the corrupted run if denoising.
    - "GIM": EAP with the gradients of ``interp.circuits.gim`` (Edin et al. 2025).
    - "EAP-IG" (Hanna et al. 2024): EAP with the mean gradient of ``steps`` runs between the two, on
      mixtures of their embeddings (midpoint rule).
    - "conductance", EAP with conductance: at each of these steps the gradient times the change of
      what the sender wrote in this step (Dhamdhere et al. 2019, for edges in place of units). So
      the effects of the edges into the logits, and those out of the embedding, sum to the whole
      difference; and as much flows into a part as out of it.

    Args:
        clean, corrupted: token ids with BOS; row i of both is a pair.
        metric: one number per word.
        directions: directions of the methods that have one.
        steps: number of runs for "EAP-IG" and "conductance". None doubles them, from
            ``FIRST_STEPS`` on, until the ``stability`` is ``STABLE``, or up to ``MOST_STEPS``.
        memory: bytes for the activations of the words and copies that are run at a time.

    Returns:
        One row per method, direction, edge and pair: method, direction ("noising", "denoising" or
        "both"), steps (how many gradients were taken; 0 if exact), stability (with half as many
        steps; NaN where steps are given or not needed), sender, receiver, pair, clean and corrupted
        (the metric of the two runs, in its unit) and effect (as a share of their difference, higher
        is nearer to the clean run; NaN if the model does not tell the two words apart).

    Raises:
        ValueError: the model is no ``ReadableModel`` or has no attention, or its stream is no sum
            because of its norms.
    """
    graph = Graph.of(model)
    with torch.inference_mode():
        at_clean, at_corrupted = metric(model(clean)), metric(model(corrupted))
    apart = (at_clean - at_corrupted).double().cpu().numpy()
    told_apart = ~np.isclose(at_clean.cpu(), at_corrupted.cpu(), rtol=1e-5, atol=1e-6)
    apart = np.where(told_apart, apart, np.nan)

    def estimate(method: Gradient, shares: Tensor) -> Float[np.ndarray, "edge pair"]:
        change = attribute(model, clean, corrupted, metric, method, shares, memory)
        return change.double().cpu().numpy() / apart

    def integrated(method: Gradient, steps: int) -> Float[np.ndarray, "edge pair"]:
        return estimate(method, _midpoints(steps))

    writes(model, clean[:1])  # raises for a model whose stream is no sum
    tables = []
    for method, direction in _asked(methods, directions):
        taken, near = int(method != "exact"), np.nan
        if method == "exact":
            effect = (
                -_exact(model, clean, corrupted, metric, memory) / apart
                if direction == "noising"
                else _exact(model, corrupted, clean, metric, memory) / apart
            )
        elif method in DIRECTED:
            effect = estimate(method, torch.tensor([float(direction == "noising")]))
        elif steps is None:
            effect, taken, near = _enough(partial(integrated, method))
        else:
            effect, taken = integrated(method, steps), steps
        rows = _rows(graph, effect)
        tables.append(rows.assign(method=method, direction=direction, steps=taken, stability=near))
    table = pd.concat(tables, ignore_index=True)
    table["clean"] = at_clean.cpu().numpy()[table["pair"]]
    table["corrupted"] = at_corrupted.cpu().numpy()[table["pair"]]
    names = ["method", "direction", "steps", "stability", "sender", "receiver", "pair"]
    return table[[*names, "clean", "corrupted", "effect"]]


def _asked(
    methods: Sequence[Method], directions: Sequence[Direction]
) -> Iterator[tuple[Method, str]]:
    for method in methods:
        yield from ((method, d) for d in (directions if method in DIRECTED else (BOTH,)))


def _rows(graph: Graph, effect: Float[np.ndarray, "edge pair"]) -> pd.DataFrame:
    """One row per edge and pair."""
    edges, pairs = effect.shape
    senders, receivers = np.array(graph.edges).T.repeat(pairs, axis=1)
    columns = {"sender": senders, "receiver": receivers, "pair": np.tile(np.arange(pairs), edges)}
    return pd.DataFrame({**columns, "effect": effect.ravel()})


def _exact(
    model: ReadableModel, tokens: Tensor, others: Tensor, metric: Metric, memory: int
) -> Float[np.ndarray, "edge pair"]:
    """The gain of the metric where one edge of a run carries the activation of other words."""
    source, edges = writes(model, others), len(Graph.of(model).edges)
    with torch.inference_mode():
        base = metric(model(tokens)).double()
    some_edges = torch.arange(edges).split(max(1, memory // (16 * edges)))
    gains = [
        edge_metric(model, tokens, source, one_hot(some, edges).to(source), metric, memory) - base
        for some in some_edges
    ]
    return torch.cat(gains).cpu().numpy()


def _midpoints(steps: int) -> Float[Tensor, " step"]:
    """The middle of each of so many equal parts of the way from 0 to 1."""
    return (torch.arange(steps, dtype=torch.float64) + 0.5) / steps


def _enough(
    estimate: Callable[[int], Float[np.ndarray, "edge pair"]],
) -> tuple[Float[np.ndarray, "edge pair"], int, float]:
    """An estimate with steps enough for a stable ranking, how many, and how stable it is."""
    steps, effect, near = FIRST_STEPS, estimate(FIRST_STEPS), 0.0
    while near < STABLE and steps < MOST_STEPS:
        steps, before, effect = 2 * steps, effect, estimate(2 * steps)
        near = stability(*(grid.mean(axis=1, where=np.isfinite(grid)) for grid in (before, effect)))
    return effect, steps, near


def stability(coarse: Float[np.ndarray, " edge"], fine: Float[np.ndarray, " edge"]) -> float:
    """The quality of a coarse ranking of the edges, held against a fine one: 1 is as good.

    The first k edges of the coarse ranking have this share of the summed sizes of the fine scores
    that the first k of the fine ranking have; the lowest share of all k is returned. So edges with
    hardly any score may change places.
    """
    sizes = np.abs(fine)
    sums = sizes[np.argsort(-np.abs(coarse), kind="stable")].cumsum()
    best = np.sort(sizes)[::-1].cumsum()
    return float((sums[best > 0] / best[best > 0]).min(initial=1.0))
