"""Does a method give a shortcut the more credit, the more a network really leans on it?

An experiment (``interp.explanations.reliance``) measures how far a network leans on the shortcut.
No method asks for it. The unit is a network. Only networks that were trained on planted lines are
tested: that they lean further than clean ones says nothing of single networks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analyses.answers import Answer
from analyses.options.studies import PLANTED
from interp.comparisons import corrected, rank_correlation
from interp.explanations.methods import called

ROW = ["method", "scale", "family"]
RUN = ["language", "architecture", "seed"]
COLUMNS = [*RUN, "reliance", "low", "high", *ROW, "credit"]
FEWEST = 5
"""The fewest networks of which an order may have a two-sided p-value of 0.05 or less."""


def credit(
    tables: Mapping[tuple[str, str, int], pd.DataFrame],
    leans: Mapping[tuple[str, str, int], Mapping[str, Any] | None],
) -> pd.DataFrame:
    """One row per network, method and scale.

    Args:
        tables: the answers to the question "leaderboard", by language, architecture and seed.
        leans: for the same networks, the "symbol" that is the shortcut, and "effect", "low" and
            "high" of its presence on the probability of "in"; None where there is no shortcut.

    Returns:
        language, architecture, seed, reliance (the effect's distance from 0), low and high (its
        95% interval), method, scale, family, credit (the share of the absolute values on the
        shortcut, less the share of the positions that it holds; mean over the words that have it
        and over replacements). 0 is an even hand. Networks whose language has no shortcut, and
        methods without a value, have no row.
    """
    parts = []
    for key, table in tables.items():
        lean = leans.get(key)
        if lean is None:
            continue
        words = table["text"].str.split()
        even = words.map(lambda word, lean=lean: word.count(lean["symbol"]) / len(word))
        beyond = table.assign(credit=table["shortcut"] - even)
        rows = beyond.groupby(ROW, sort=False)["credit"].mean().dropna().reset_index()
        sign = -1 if lean["effect"] < 0 else 1
        ends = sorted((sign * lean["low"], sign * lean["high"]))
        about = dict(zip(RUN, key, strict=True)) | {"reliance": sign * lean["effect"]}
        parts.append(rows.assign(**about | {"low": ends[0], "high": ends[1]}))
    return pd.concat(parts, ignore_index=True)[COLUMNS] if parts else pd.DataFrame(columns=COLUMNS)


def credited(result: Answer) -> pd.DataFrame:
    """The rows of ``credit`` that a leaderboard keeps."""
    return pd.DataFrame(result.findings.get("credit") or [], columns=COLUMNS)


def _follows(rows: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Tests whether a method's credit rises with the reliance, over planted networks of one
    architecture.

    Args:
        rows: the rows of ``credit``.
        seed: seed of the orders that are drawn where there are too many to try all.

    Returns:
        One row per architecture, method and scale whose values differ: architecture, method, scale,
        family, networks, rho (Spearman), p (two-sided, over orders of the networks), corrected
        (Holm's correction for all rows that are no control).
    """
    records = []
    planted = rows[rows["language"] == PLANTED]
    for key, part in planted.groupby(["architecture", *ROW], sort=False):
        reliance, share = (part[name].to_numpy(np.float64) for name in ("reliance", "credit"))
        rho, p = rank_correlation(reliance, share, seed=seed)
        if len(part) >= FEWEST and not np.isnan(rho):
            records.append((*key, len(part), rho, p))
    columns = ["architecture", *ROW, "networks", "rho", "p"]
    table = pd.DataFrame(records, columns=columns)
    tested = np.where(table["family"] == "control", np.nan, table["p"].to_numpy(dtype=np.float64))
    return table.assign(corrected=corrected(tested))


def in_words(rows: pd.DataFrame, level: float = 0.05) -> str:
    """The methods whose credit follows the reliance, in words; empty without enough planted
    networks."""
    tests = _follows(rows)
    tests = tests[tests["family"] != "control"].sort_values("rho", ascending=False)
    if tests.empty:
        return ""
    kind = rows.loc[rows["language"] == PLANTED, "architecture"].iloc[0]
    methods = tests[tests["architecture"] == kind]
    name = [called(*pair) for pair in zip(methods["method"], methods["scale"], strict=True)]
    methods = methods.assign(name=name)
    sure = methods[methods["corrected"].to_numpy() <= level]
    networks = rows[(rows["language"] == PLANTED) & (rows["architecture"] == kind)]
    text = (
        f"The {methods['networks'].max()} {kind} networks with a planted shortcut lean on it by "
        f"{networks['reliance'].min():.2f} to {networks['reliance'].max():.2f} of probability. "
    )
    how = f"Spearman's rho, permutations of the networks, Holm over {len(tests)} tests"
    if sure.empty:
        best = f"{name[0]}, rho {methods['rho'].iloc[0]:.2f}"
        return f"{text}Of no method these networks show that its credit follows ({best}; {how})."
    listing = ", ".join(f"{row.name} {row.rho:.2f}" for row in sure.itertuples(index=False))
    return f"{text}The credit of {len(sure)} of {len(methods)} methods follows: {listing} ({how})."
