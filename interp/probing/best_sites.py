"""At which site is a variable read best, and how well do the controls do at their best sites?"""

from __future__ import annotations

import pandas as pd


def best_sites(table: pd.DataFrame, model: str = "trained") -> pd.DataFrame:
    """The best site of each target beside the best that each control reaches at any site.

    The best of many scores is high by chance too. So each control may choose its best site as well.

    Args:
        table: rows of ``probe_sites`` or ``baseline`` with one more column, model: the model whose
            activations were probed, or the name of a control.
        model: the one in question; all others are controls.

    Returns:
        One row per target, in the table's order: target, site, metric, score, and a column for each
        control (its best score; NaN where it has none).
    """
    own = table[table["model"] == model]
    best = own.loc[own.groupby("target", sort=False)["score"].idxmax()]
    others = table[table["model"] != model]
    controls = others.groupby(["target", "model"])["score"].max().unstack()
    chosen = best[["target", "site", "metric", "score"]]
    return chosen.join(controls, on="target").reset_index(drop=True)
