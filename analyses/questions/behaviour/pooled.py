"""Shares of groups of words, such as those of one length, told as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from analyses.claims import Claim
from interp.statistics import wilson


def pooled(
    finding: str,
    rows: pd.DataFrame,
    unit: str,
    controls: Mapping[str, str],
    kind: str = "",
    notes: Sequence[str] = (),
) -> Claim:
    """The share over all groups. In doubt are groups with errors that are no better alone.

    Args:
        rows: columns model ("trained" or a control), group, count, share, low, and those of the
            controls that are no models.
        controls: models or columns, each by its name in the claim.
        kind: the kind of group, in a word or two.
    """
    shares = rows.pivot(index="group", columns="model", values="share")
    trained = rows[rows["model"] == "trained"].set_index("group")
    beside = trained.join(shares)[list(controls.values())].set_axis(list(controls), axis=1)
    count, words = trained["count"], int(trained["count"].sum())
    hits = round((trained["share"] * count).sum())
    low, high = wilson(hits, words)
    over_all = dict(beside.mul(count, axis=0).sum() / words)
    alone = trained.index[(trained["low"] <= beside.max(axis=1)) & (trained["share"] < 1)]
    doubts = [f"Alone it is not shown at {kind} {', '.join(map(str, alone))}."]
    if not len(alone) or low <= max(over_all.values()):
        doubts = []
    return Claim(
        finding,
        hits / words,
        low,
        high,
        words,
        unit,
        "Wilson",
        over_all,
        ".1%",
        doubts=doubts,
        notes=notes,
    )
