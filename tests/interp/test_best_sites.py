"""The best site of each variable, and its controls, from tables made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd

from interp.probing.best_sites import best_sites

SCORES = [
    ("trained", "embed", "count", 0.2),
    ("trained", "L0", "count", 0.9),
    ("trained", "L0", "block", 0.4),
    ("trained", "embed", "block", 0.5),
    ("untrained", "embed", "count", 0.7),
    ("untrained", "L0", "count", 0.1),
    ("untrained", "L0", "block", 0.6),
    ("no activation", "none", "count", 0.0),
]


def test_each_side_may_choose_its_site() -> None:
    table = pd.DataFrame(SCORES, columns=["model", "site", "target", "score"]).assign(metric="R2")
    best = best_sites(table).set_index("target")
    assert list(best.index) == ["count", "block"]
    assert best.loc["count", ["site", "score"]].tolist() == ["L0", 0.9]
    assert best.loc["block", ["site", "score"]].tolist() == ["embed", 0.5]
    assert best.loc["count", ["untrained", "no activation"]].tolist() == [0.7, 0.0]
    assert best.loc["block", "untrained"] == 0.6
    assert np.isnan(best.loc["block", "no activation"])
    other = best_sites(table, "untrained").set_index("target")
    assert other.loc["count", ["site", "trained"]].tolist() == ["embed", 0.9]
