"""Is every edge of a circuit needed? Knock-outs from the circuit and from the whole model.

An edge that a circuit cannot do without may cost the whole model nothing, because edges outside the
circuit do the same. Wang et al. (2022) call a circuit complete if it and the model behave alike
under knock-outs: F(C \\ K) = F(M \\ K) for every set K of its edges, where F is the faithfulness, C
the circuit, M the whole model. The largest gap found is the incompleteness.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from interp.circuits.circuits import Bench
from interp.circuits.graph import Edge
from interp.statistics import bootstrap_mean


def knock_outs(bench: Bench, circuit: Sequence[Edge]) -> pd.DataFrame:
    """The cost of each edge of a circuit when it alone is knocked out (noising).

    Returns:
        One row per edge: sender, receiver, model (the share of the whole model's difference that is
        lost when the edge is knocked out of the whole model; 0 is nothing), low, high (its 95%
        bootstrap interval over pairs), circuit (what the circuit alone loses without the edge).
    """
    alone = torch.eye(len(circuit), dtype=torch.bool)
    lost = 1 - bench.faithfulness(_without(bench, circuit, alone, whole=True))
    ends = bench.faithfulness(_without(bench, circuit, torch.zeros_like(alone[:1]), whole=False))
    left = bench.faithfulness(_without(bench, circuit, alone, whole=False))
    mean, low, high = bootstrap_mean(lost.T)
    rows = pd.DataFrame(list(circuit), columns=["sender", "receiver"])
    within = ends.mean() - left.mean(axis=1)
    return rows.assign(model=mean, low=low, high=high, circuit=within)


def incompleteness(
    bench: Bench, circuit: Sequence[Edge], draws: int = 16, seed: int = 0
) -> pd.DataFrame:
    """The gap between a circuit and the whole model under the same knock-outs (Wang et al. 2022).

    The sets are each edge of the circuit alone, and halves of the circuit drawn at random. The
    largest gap is a lower bound: other sets may have larger ones.

    Returns:
        One row per set K: edges (how many), circuit and model (the faithfulness of the circuit and
        of the whole model without K) and gap (the size of their difference; 0 is complete).
    """
    rng, size = np.random.default_rng(seed), len(circuit)
    halves = rng.permuted(np.tile(np.arange(size) < size / 2, (draws, 1)), axis=1)
    sets = torch.cat([torch.eye(size, dtype=torch.bool), torch.as_tensor(halves)])
    part, model = (
        bench.faithfulness(_without(bench, circuit, sets, whole)).mean(axis=1)
        for whole in (False, True)
    )
    columns = {"edges": sets.sum(dim=1).numpy(), "circuit": part, "model": model}
    return pd.DataFrame({**columns, "gap": np.abs(part - model)})


def _without(
    bench: Bench, circuit: Sequence[Edge], sets: Bool[Tensor, "set member"], whole: bool
) -> Bool[Tensor, "set edge"]:
    """The circuit, or the whole model, without each of some sets of the circuit's edges."""
    place = {edge: index for index, edge in enumerate(bench.graph.edges)}
    members = torch.tensor([place[edge] for edge in circuit], dtype=torch.long)
    left = torch.full((len(sets), len(place)), fill_value=whole)
    left[:, members] = ~sets
    return left
