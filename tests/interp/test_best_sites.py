"""The best site of each variable, and its controls, from tables made by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from interp.probing.best_sites import best_sites
from interp.probing.probes import Target, probe_sites

SCORES = [
    ("no activation", "none", "count", 0.0, 0.1),
    ("trained", "embed", "count", 0.2, 0.95),
    ("trained", "L0", "count", 0.9, 0.7),
    ("trained", "L0", "block", 0.4, 0.8),
    ("trained", "embed", "block", 0.5, 0.45),
    ("untrained", "embed", "count", 0.7, 0.6),
    ("untrained", "L0", "count", 0.1, 0.9),
    ("untrained", "L0", "block", 0.6, 0.5),
]
COLUMNS = ["model", "site", "target", "choice", "score"]


def test_each_side_chooses_its_site_and_is_scored_on_other_words() -> None:
    table = pd.DataFrame(SCORES, columns=COLUMNS)
    table = table.assign(metric="R2", low=0.0, high=1.0, n_test=9)
    best = best_sites(table).set_index("target")
    assert list(best.index) == ["count", "block"]
    assert best.loc["count", ["site", "score"]].tolist() == ["L0", 0.7]
    assert best.loc["block", ["site", "score"]].tolist() == ["embed", 0.45]
    assert best.loc["count", ["untrained", "no activation"]].tolist() == [0.6, 0.1]
    assert best.loc["block", "untrained"] == 0.5
    assert np.isnan(best.loc["block", "no activation"])
    other = best_sites(table, "untrained").set_index("target")
    assert other.loc["count", ["site", "trained"]].tolist() == ["embed", 0.7]


def test_a_table_without_words_that_choose_has_no_best_site() -> None:
    table = pd.DataFrame(SCORES, columns=COLUMNS).assign(choice=np.nan)
    with pytest.raises(ValueError, match="no words chose a site"):
        best_sites(table)


def test_the_best_of_many_sites_that_hold_nothing_is_at_chance() -> None:
    """The largest of forty scores lies far above chance; the score of the site that others chose
    does not."""
    rng = np.random.default_rng(0)
    shape = (40, 6)
    coins = {
        f"coin {i}": Target(rng.integers(0, 2, shape), np.ones(shape, dtype=bool), "category")
        for i in range(8)
    }
    sites = {f"noise {i}": rng.normal(size=(*shape, 2)) for i in range(40)}
    place = np.arange(40)
    table = probe_sites(sites, coins, place % 2 == 0, choose=place % 4 == 1)
    best = best_sites(table.assign(model="trained"))
    assert best["score"].mean() == pytest.approx(0.5, abs=0.05)
    assert table.groupby("target")["score"].max().mean() > 0.6
