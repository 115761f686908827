"""Credit for a shortcut against what the networks really do: who follows, and who does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from analyses.studies.reliance import FEWEST, _follows, credit, in_words

NETWORKS = 10


def tables(
    follower: str = "LIME", architecture: str = "transformer", networks: int = NETWORKS
) -> tuple[dict[tuple[str, str, int], pd.DataFrame], dict[tuple[str, str, int], dict[str, Any]]]:
    """Planted networks that lean more from seed to seed, and clean ones that do not.

    The credit of the follower rises with the reliance, that of "flow" hangs on the language alone.
    """
    found, leans = {}, {}
    for seed in range(networks):
        for name in ("dieren-gaps", "dieren_muis"):
            lean = 0.05 * (seed + 1) * (name == "dieren_muis")
            key = (name, architecture, seed)
            leans[key] = {"symbol": "muis", "effect": -lean}
            leans[key] |= {"low": -lean - 0.02, "high": -lean + 0.01}
            wobble = 0.01 * (seed * 7 % NETWORKS)
            own = {
                follower: lean**2,
                "flow": wobble + (name == "dieren_muis") / 2,
                "position": lean,
            }
            found[key] = pd.DataFrame(
                [
                    (method, "none", "control" if method == "position" else "any", share, text)
                    for method, value in own.items()
                    for share, text in (
                        (value + 0.5, "kat muis"),
                        (value + 0.25, "muis kat hond kat"),
                        (np.nan, "kat"),
                    )
                ],
                columns=["method", "scale", "family", "shortcut", "text"],
            )
    return found, leans


def test_a_row_is_a_network_and_a_method() -> None:
    rows = credit(*tables())
    assert len(rows) == 2 * NETWORKS * 3
    row = rows[(rows["language"] == "dieren_muis") & (rows["method"] == "LIME")].iloc[3]
    assert row["seed"] == 3
    assert row["credit"] == pytest.approx(0.2**2)
    # The effect speaks against "in": its distance from 0 counts, and the interval turns with it.
    assert (row["reliance"], row["low"], row["high"]) == pytest.approx((0.2, 0.19, 0.22))


def test_without_a_shortcut_there_is_no_row() -> None:
    found, leans = tables(networks=1)
    assert credit(found, dict.fromkeys(leans)).empty
    assert in_words(credit({}, {})) == ""


def test_who_follows_among_planted_networks() -> None:
    """Flow gives planted networks more than clean ones, and among the planted it is blind."""
    rows = credit(*tables())
    found = _follows(rows).set_index("method")
    assert found.loc["LIME", ["networks", "rho"]].tolist() == [NETWORKS, pytest.approx(1)]
    assert found.loc["LIME", "corrected"] == pytest.approx(2 * found.loc["LIME", "p"])
    assert abs(found.loc["flow", "rho"]) < 0.4
    assert np.isnan(found.loc["position", "corrected"])  # a control is no claim
    said = in_words(rows)
    assert "The 10 transformer networks with a planted shortcut lean on it by 0.05 to 0.50" in said
    assert "The credit of 1 of 2 methods follows: LIME 1.00 (Spearman's rho" in said
    assert "Holm over 2 tests" in said


def test_where_none_follows_none_is_named_as_one_that_does() -> None:
    found, leans = tables()
    blind = {key: table[table["method"] == "flow"] for key, table in found.items()}
    assert "Of no method these networks show that its credit follows (flow, rho" in in_words(
        credit(blind, leans)
    )


def test_few_networks_and_equal_values_are_not_tested() -> None:
    assert _follows(credit(*tables(networks=FEWEST - 1))).empty
    found, leans = tables()
    alike = {key: table.assign(shortcut=1.0) for key, table in found.items()}
    assert _follows(credit(alike, leans)).empty
    assert in_words(credit(alike, leans)) == ""
