"""Joint effects: parts that do the same work, and parts that need each other.

A part (a head or an MLP) is knocked out by noising all edges that it writes to, and restored by
denoising them, alone and together with one other part.

- **redundancy** (OR): without either nothing is lost, without both much. Each is enough.
- **conjunction** (AND): with either nothing is restored, with both much. Both are needed.
- **cancelling**: either alone has a large effect, both together have none.

Single effects are blind to the first when noising and to the second when denoising.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import pandas as pd
import torch

from interp.circuits.circuits import Bench
from interp.circuits.effects import DIRECTIONS

SMALL, LARGE = 0.1, 0.5
"""Effects of less than the one count as none, of at least the other as much."""


def pair_effects(bench: Bench) -> pd.DataFrame:
    """The joint effect of each two parts, beside the effect of each alone.

    Returns:
        One row per direction and pair of parts: direction ("noising": the share of the whole
        difference that is lost without them; "denoising": the share that they restore), first,
        second (the parts), alone_first, alone_second, together (means over pairs of words) and
        interaction (together less both alone).
    """
    parts = bench.graph.senders[1:]
    pairs = list(combinations(parts, 2))
    sets = [{part} for part in parts] + [set(pair) for pair in pairs]
    theirs = torch.tensor([[edge.sender in some for edge in bench.graph.edges] for some in sets])
    tables = []
    for direction in DIRECTIONS:
        effect = (
            1 - bench.faithfulness(~theirs) if direction == "noising" else bench.restored(theirs)
        ).mean(axis=1)
        alone, together = dict(zip(parts, effect, strict=False)), effect[len(parts) :]
        table = pd.DataFrame(pairs, columns=["first", "second"])
        table["alone_first"] = table["first"].map(alone)
        table["alone_second"] = table["second"].map(alone)
        tables.append(table.assign(together=together, direction=direction))
    table = pd.concat(tables, ignore_index=True)
    table["interaction"] = table["together"] - table["alone_first"] - table["alone_second"]
    return table


def _kind_of_pair(row: Mapping[str, Any]) -> str | None:
    """ "redundancy", "conjunction" or "cancelling" for a row of ``pair_effects``; None for others.

    "redundancy" is a matter of noising, "conjunction" of denoising; both directions know
    "cancelling".
    """
    alone = [abs(row[name]) for name in ("alone_first", "alone_second")]
    if max(alone) < SMALL and row["together"] >= LARGE:
        return {"noising": "redundancy", "denoising": "conjunction"}[str(row["direction"])]
    if min(alone) >= LARGE and abs(row["together"]) < SMALL:
        return "cancelling"
    return None


def blind_spots(choice: pd.DataFrame, judged: pd.DataFrame) -> pd.DataFrame:
    """The pairs of parts of which single effects say too little or too much.

    Args:
        choice: a table of ``pair_effects``, on the pairs of words that choose.
        judged: a table of ``pair_effects``, on others, from which the numbers come.

    Returns:
        The rows of ``judged`` that are of the same kind in both tables, the largest interaction
        first, with one more column: kind ("redundancy", "conjunction" or "cancelling").
    """
    kinds = [[_kind_of_pair(row) for row in table.to_dict("records")] for table in (choice, judged)]
    same = [one if one == other else None for one, other in zip(*kinds, strict=True)]
    rows = judged.assign(kind=same)
    return rows[rows["kind"].notna()].sort_values(
        "interaction", key=abs, ascending=False, kind="stable", ignore_index=True
    )
