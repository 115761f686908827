"""Language by language: what holds over all languages need not hold in each."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analyses.studies.by_language import compared, in_words
from analyses.studies.claims import KERNEL, LIME, in_each_language
from interp.comparisons import corrected, paired

SEEDS = 12
PLAN = ((LIME, "chance"), (KERNEL, "chance"))


def rows(**better: float) -> pd.DataFrame:
    """AUROC of LIME, SHAP and chance; by language, how much better than chance the two are."""
    rng = np.random.default_rng(0)
    found = []
    for language, gap in better.items():
        for seed in range(SEEDS):
            chance = 0.5 + 0.01 * rng.random()
            for method, more in ((LIME, gap), (KERNEL, gap / 2), ("language", 0.0)):
                noise = 0.02 * rng.random(2) + more
                for kind, value in zip(("data", "fixed"), chance + noise - 0.01, strict=True):
                    found.append((language, seed, "non-members", method, kind, "AUROC", value))
            found.append((language, seed, "non-members", "chance", "data", "AUROC", chance))
    columns = ["language", "seed", "membership", "method", "replacement", "measure", "value"]
    return pd.DataFrame(found, columns=columns)


def test_a_language_is_tested_by_its_own_seeds_and_all_are_corrected_together() -> None:
    table = rows(anbn=0.3, dieren=0.0)
    found = compared(table, PLAN).set_index(["language", "first"])
    assert len(found) == 4
    part = table[table["language"] == "anbn"].pivot_table("value", "seed", "method")
    expected = paired(part[LIME].to_numpy(), part["chance"].to_numpy())
    row = found.loc["anbn", LIME]
    assert (row["difference"], row["p"], row["pairs"]) == pytest.approx(
        (expected.difference, expected.p, SEEDS)
    )
    assert found["corrected"].tolist() == pytest.approx(corrected(found["p"].to_numpy()).tolist())
    said = in_words(compared(table, PLAN))
    assert f"non-members of anbn: {LIME} is above chance (+0.30" in said
    assert f"non-members of dieren: {LIME} is not told from chance" in said
    assert "Holm over 4" in said
    assert f"{KERNEL} is below chance (-0.15" in in_words(compared(rows(a=-0.3, b=0.0), PLAN))


def test_what_is_not_defined_is_not_compared() -> None:
    table = rows(anbn=0.3, dieren=0.1)
    alone = table[(table["language"] == "anbn") | (table["method"] != KERNEL)]
    found = compared(alone, PLAN)
    assert found[["language", "first"]].to_numpy().tolist() == [
        *(["anbn", name] for name in (LIME, KERNEL)),
        ["dieren", LIME],
    ]
    assert in_words(compared(table[table["language"] == "anbn"], PLAN)) == ""
    assert in_words(compared(table.assign(measure="mass"), PLAN)) == ""


def test_few_seeds_are_said_to_be_too_few() -> None:
    table = rows(anbn=0.3, dieren=0.1)
    said = in_words(compared(table[table["seed"] < 5], PLAN))
    assert said.endswith("5 seeds cannot show anything: it takes 8.")


def test_transformers_are_meant_and_planted_shortcuts_are_not() -> None:
    table = rows(anbn=0.3, dieren=0.1)
    table["scale"] = np.where(table["method"].isin(["chance", "language"]), "none", "probability")
    table["method"] = table["method"].str.replace(" (probability)", "")
    table["architecture"] = "transformer"
    other = table.assign(architecture="lstm", value=0.0)
    planted = table.assign(language="dieren_muis", value=0.0)
    found = in_each_language(pd.concat([table, other, planted], ignore_index=True))
    assert set(found["language"]) == {"anbn", "dieren"}
    assert found.loc[0, "difference"] == pytest.approx(0.3, abs=0.01)
