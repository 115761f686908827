"""Which site is a variable read best at, and how well do the controls do anywhere?"""

from __future__ import annotations

import pandas as pd


def best_sites(table: pd.DataFrame, model: str = "trained") -> pd.DataFrame:
    """The best site of each target beside the best that each control reaches at any site.

    Choosing the best of many sites lifts a score by chance too, so controls may choose as well.

    Args:
        table: rows of ``probe_sites`` or ``baseline``, and a column model: whose activations were
            probed, or the name of a control.
        model: the one that is asked about; all others are controls.

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
