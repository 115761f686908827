"""A planted network's plan beside what was found: which edges are hits, and which were missed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from analyses.answers import Answer
from interp.circuits.effects import METHODS
from models.plants.record import PlanRecord

Mark = Literal["hit", "missed", "not in the plan"]


def marks(plan: PlanRecord, edges: Collection[Sequence[str]]) -> dict[tuple[str, str], Mark]:
    """Each edge of the plan and each that was found, with what it is."""
    planned = {(sender, receiver) for sender, receiver in plan["edges"]}
    shown = {(sender, receiver) for sender, receiver in edges}
    return {
        edge: "missed" if edge not in shown else "hit" if edge in planned else "not in the plan"
        for edge in sorted(planned | shown)
    }


def rankings(plan: PlanRecord, result: Answer) -> pd.DataFrame:
    """Scores of each ranking of an answer of ``circuits`` against the edges of the plan.

    Returns:
        A row per direction and method, and one for random values: edges ranked by, AUROC,
        average precision. Edges are ranked by the size of their mean effect.
    """
    planned = {(sender, receiver) for sender, receiver in plan["edges"]}
    table, rows = result.table[result.table["model"] == "trained"], []
    for direction, part in table.groupby("direction", sort=False):
        inside = [edge in planned for edge in zip(part["sender"], part["receiver"], strict=True)]
        for method in (name for name in METHODS if name in part):
            size = part[method].abs().fillna(0.0)
            rows.append(
                {
                    "edges ranked by": f"{method}, {direction}",
                    "AUROC": float(roc_auc_score(inside, size)),
                    "average precision": float(average_precision_score(inside, size)),
                }
            )
    share = float(np.mean(inside))
    rows.append({"edges ranked by": "random values", "AUROC": 0.5, "average precision": share})
    return pd.DataFrame(rows)


def found_by(findings: Mapping[str, Any], lens: str) -> pd.DataFrame:
    """The edges that a lens ranks first, as many as the plan has, beside the plan.

    Args:
        findings: the findings of the kept answer about one network (``board.scored``).

    Returns:
        A row per edge of the network: sender, receiver, exact (the lens's score as a share of its
        largest), mark (a ``Mark``; empty for an edge that neither has).
    """
    scores = np.abs(findings["scores"][lens])
    planned = np.array(findings["planned"])
    first = np.zeros(len(scores), dtype=bool)
    first[np.argsort(-scores, kind="stable")[: planned.sum()]] = True
    table = pd.DataFrame(findings["edges"], columns=["sender", "receiver"])
    table["exact"] = scores / max(scores.max(), 1e-12)
    table["mark"] = np.select(
        [planned & first, planned, first], ["hit", "missed", "not in the plan"], ""
    )
    return table


def counted(marked: Mapping[tuple[str, str], Mark]) -> str:
    """The number of edges of each kind, in a sentence."""
    kinds = list(marked.values())
    hits, missed, more = (kinds.count(kind) for kind in ("hit", "missed", "not in the plan"))
    return f"Of the {hits + missed} edges of the plan {hits} were found, and {more} others."
