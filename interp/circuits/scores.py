"""Scores of edges: means over pairs in a table of ``interp.circuits.effects.edge_effects``."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pandas as pd

from interp.circuits.effects import BOTH
from interp.circuits.graph import Edge
from interp.statistics import bootstrap_mean


def ranking_name(method: str, direction: str) -> str:
    """A ranking's name, such as "exact, noising"; without a direction, the method's name alone."""
    return method if direction == BOTH else f"{method}, {direction}"


def edge_scores(table: pd.DataFrame) -> dict[str, dict[Edge, float]]:
    """The mean effect of each edge, by ``ranking_name``; circuits are ranked by it."""
    keys = ["method", "direction"]
    means = table.groupby([*keys, "sender", "receiver"], sort=False)["effect"].mean()
    return {
        ranking_name(method, direction): {
            Edge(*edge): float(v) for edge, v in rows.droplevel(keys).items()
        }
        for (method, direction), rows in means.groupby(keys, sort=False)
    }


def by_edge(table: pd.DataFrame, circuit: Collection[Edge] = ()) -> pd.DataFrame:
    """The mean exact effect of each edge in each direction, beside the approximations.

    Args:
        table: a table of ``edge_effects``, with the method "exact".
        circuit: edges to mark.

    Returns:
        One row per direction and edge: direction ("noising", "denoising"), sender, receiver, a
        column for each method of the table ("exact" among them; those without a direction stand in
        both), low and high (95% bootstrap interval of the exact effect, over the pairs that the
        model tells apart; NaN if there is none), circuit (is the edge one of ``circuit``?).
    """
    tables = []
    for direction, rows in _by_direction(table):
        exact = rows[rows["method"] == "exact"]
        wide = exact.pivot(index="pair", columns=["sender", "receiver"], values="effect")
        told_apart = wide.dropna()
        means = _means(rows).loc[wide.columns].reset_index()
        means["low"] = means["high"] = np.nan
        if len(told_apart):
            _, means["low"], means["high"] = bootstrap_mean(told_apart.to_numpy())
        names = zip(means["sender"], means["receiver"], strict=True)
        inside = [Edge(*edge) in circuit for edge in names]
        tables.append(means.assign(direction=direction, circuit=inside))
    return pd.concat(tables, ignore_index=True)


def agreement(table: pd.DataFrame) -> pd.DataFrame:
    """The agreement of the approximations of ``edge_effects`` with the exact effects.

    Args:
        table: a table of ``edge_effects``, with the method "exact".

    Returns:
        One row per direction of the exact effects and approximation: direction, method, edges (how
        many), pearson and spearman (correlations over the edges' means, -1 to 1), and mean_error
        (the mean absolute difference of these means). An approximation that has a direction is
        compared in its own.
    """
    records = []
    for direction, rows in _by_direction(table):
        wide = _means(rows)
        for method in wide.columns.drop("exact"):
            near = {
                "edges": len(wide),
                "pearson": wide["exact"].corr(wide[method]),
                "spearman": wide["exact"].corr(wide[method], method="spearman"),
                "mean_error": (wide["exact"] - wide[method]).abs().mean(),
            }
            records.append({"direction": direction, "method": method, **near})
    return pd.DataFrame(records)


def _by_direction(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each direction, with those of methods that have none."""
    for direction in table.loc[table["method"] == "exact", "direction"].unique():
        yield direction, table[table["direction"].isin([direction, BOTH])]


def _means(table: pd.DataFrame) -> pd.DataFrame:
    """A row per edge, a column per method."""
    means = table.groupby(["sender", "receiver", "method"], sort=False)["effect"].mean()
    return means.unstack("method")
