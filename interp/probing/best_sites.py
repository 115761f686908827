"""At which site is a variable read best, and how well do the controls do at their best sites?"""

from __future__ import annotations

import pandas as pd


def best_sites(table: pd.DataFrame, model: str = "trained") -> pd.DataFrame:
    """The best site of each target, and beside it each control at its own best site.

    Some words choose the site, by the column choice. The score is that of other words: the best of
    many scores is high by luck too, and luck does not come twice. Each control chooses its best
    site in the same way.

    Args:
        table: rows of ``probe_sites`` or ``baseline`` with words that choose, and one more column,
            model: the model whose activations were probed, or the name of a control.
        model: the one in question; all others are controls.

    Returns:
        One row per target, in the table's order: target, site, metric, score, low, high, n_test,
        and a column for each control (its score; NaN where it has none).

    Raises:
        ValueError: no words chose, so that no site can be called the best.
    """
    if table["choice"].isna().any():
        raise ValueError("no words chose a site: give `probe_sites` the argument choose")
    table = table.reset_index(drop=True)
    best = table.loc[table.groupby(["target", "model"], sort=False)["choice"].idxmax()]
    rows = best[best["model"] == model]
    controls = best[best["model"] != model].pivot(index="target", columns="model", values="score")
    chosen = rows[["target", "site", "metric", "score", "low", "high", "n_test"]]
    return chosen.join(controls, on="target").reset_index(drop=True)
