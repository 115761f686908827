"""What a table of ``interp.circuits.edges.edge_effects`` says about each edge: means over pairs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from interp.circuits.graph import Edge
from interp.statistics import bootstrap_mean


def edge_scores(table: pd.DataFrame) -> dict[str, dict[Edge, float]]:
    """The mean effect of each edge, by method; circuits are ranked by it."""
    means = table.groupby(["method", "sender", "receiver"], sort=False)["effect"].mean()
    return {
        str(method): {Edge(*edge): float(v) for edge, v in rows.droplevel("method").items()}
        for method, rows in means.groupby("method")
    }


def by_edge(table: pd.DataFrame, circuit: Collection[Edge] = ()) -> pd.DataFrame:
    """The mean exact effect of each edge, beside the approximations.

    Args:
        table: of ``edge_effects``, with the method "exact".
        circuit: edges to mark.

    Returns:
        One row per edge: sender, receiver, a column for each method of the table ("exact" among
        them; 0 as corrupted, 1 as clean), low and high (95% bootstrap interval of the exact effect,
        over the pairs that the model tells apart; NaN if there is none), circuit (is the edge one
        of ``circuit``?).
    """
    means = table.groupby(["sender", "receiver", "method"], sort=False)["effect"].mean().unstack()
    exact = table[table["method"] == "exact"]
    wide = exact.pivot(index="pair", columns=["sender", "receiver"], values="effect")
    told_apart = wide.dropna()
    rows = means.loc[wide.columns].reset_index()
    rows["low"] = rows["high"] = np.nan
    if len(told_apart):
        _, rows["low"], rows["high"] = bootstrap_mean(told_apart.to_numpy())
    names = zip(rows["sender"], rows["receiver"], strict=True)
    return rows.assign(circuit=[Edge(*edge) in circuit for edge in names])


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """How near the approximations of ``edge_effects`` come to the exact effects.

    Args:
        table: of ``edge_effects``, with the method "exact".

    Returns:
        One row per approximation: method, edges (how many), pearson and spearman (correlations over
        the edges' means, -1 to 1), and mean_error (the mean absolute difference of these means).
    """
    means = table.groupby(["method", "sender", "receiver"], sort=False)["effect"].mean()
    wide = means.unstack("method")
    rows = [
        {
            "method": method,
            "edges": len(wide),
            "pearson": wide["exact"].corr(wide[method]),
            "spearman": wide["exact"].corr(wide[method], method="spearman"),
            "mean_error": (wide["exact"] - wide[method]).abs().mean(),
        }
        for method in wide.columns.drop("exact")
    ]
    return pd.DataFrame(rows)
