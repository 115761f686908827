"""The findings of interchange and scrubbing: every method at the site that it chose itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analyses.claims import Claim, measured
from analyses.questions.trials.exchanging import ARBITRARY, chosen
from analyses.questions.trials.prefixes import Prefixes
from analyses.questions.trials.states import RANDOM_STATE, STEERED
from interp.causal.scrubbing import ANY

UNTRAINED, LONGER = "DAS, untrained model", "DAS, longer prefixes"
ONE = "DAS, one dimension"
CONTROLS = {
    UNTRAINED: "the untrained network",
    ARBITRARY: "arbitrary targets",
    "random subspace": "a random subspace, moved as far",
    "none": "nothing exchanged",
}
MEASURES = {
    "course, read again": "exchanged after each further symbol",
    "course, state exchanged": "exchanged once, and read after each further symbol",
    "next symbols": "exchanged and read at one place",
    "course, carried": "the prefixes' difference added after each further symbol",
    "course, carried in proportion": "their difference added, shared out over the length",
    "course, prefix exchanged": "the whole prefix exchanged",
}
"""The measures of an exchange in words. A claim is about the first that there is; the others may
cast doubt."""


def exchanged(table: pd.DataFrame, prefixes: Prefixes | None) -> dict[str, Any] | None:
    """The results of every measure: what DAS chose and reaches, and what the controls reach.

    Keys: values, behaviours (how many different ones the variables and the next symbols have),
    width (of the activation), measures. Of a measure: site, rank, chosen (its value where it was
    chosen), variables. Of a variable: values (by method, each at the site and rank that it chose),
    low, high, words, units (of DAS), whole (the whole activation at the site of DAS). None where
    nothing was exchanged.
    """
    rows = table[table["experiment"] == "interchange"]
    if prefixes is None or rows.empty:
        return None
    measures = {m: _of_measure(rows[rows["measure"] == m]) for m in rows["measure"].unique()}
    return {
        "values": len(prefixes.behaviours),
        "behaviours": len(set(prefixes.behaviours.values())),
        "width": int(rows.loc[rows["method"] == "whole activation", "amount"].iloc[0]),
        "measures": measures,
    }


def _of_measure(rows: pd.DataFrame) -> dict[str, Any]:
    named = rows["method"].where(rows["model"] == "trained", UNTRAINED)
    longer, rows = rows[rows["split"] == "longer"], rows.assign(method=named)
    picked = {
        method: _at(rows[rows["method"] == method], *chosen(rows[rows["method"] == method]))
        for method in named.unique()
    }
    das = rows[rows["method"] == "DAS"]
    site, rank = chosen(das)
    if rank > 1:
        one = das[das["amount"] == 1]
        picked[ONE] = _at(one, *chosen(one))
    whole = rows[rows["method"] == "whole activation"]
    whole = _at(whole, site, int(whole["amount"].iloc[0]))
    variables = {}
    for name, part in picked["DAS"].groupby("variable", sort=False):
        values = {m: _value(some, name) for m, some in picked.items()}
        if len(longer):
            values[LONGER] = _value(longer, name)
        scores = part.iloc[0][["low", "high", "words", "units"]].to_dict()
        variables[str(name)] = {"values": values, **scores, "whole": _value(whole, name)}
    best = das[(das["site"] == site) & (das["amount"] == rank) & (das["split"] == "choose")]
    best = best["value"].mean()
    return {"site": site, "rank": rank, "chosen": float(best), "variables": variables}


def _at(rows: pd.DataFrame, site: str, rank: int) -> pd.DataFrame:
    there = (rows["site"] == site) & (rows["amount"] == rank)
    return rows[there & (rows["split"] == "score")]


def _value(rows: pd.DataFrame, variable: object) -> float:
    return float(rows.loc[rows["variable"] == variable, "value"].iloc[0])


def exchange_claim(
    exchange: Mapping[str, Any], main: str, scrubbed: Mapping[str, Any] | None
) -> Claim:
    """The effect of exchanging a subspace, by the first of ``MEASURES``."""
    measures = exchange["measures"]
    measure = next(name for name in MEASURES if name in measures)
    about = measures[measure]
    name = main if main in about["variables"] else next(iter(about["variables"]))
    result = about["variables"][name]
    value, controls = _beside(result)
    doubts = []
    for other in _further(measures, measure):
        here, beside = _beside(measures[other]["variables"][name])
        if here <= (most := max(beside.values())):
            doubts.append(
                f"By another test ({MEASURES[other]}) it is {here:.0%}, a control {most:.0%}."
            )
    if (longer := result["values"].get(LONGER, 1.0)) <= max(controls.values()):
        doubts.append(f"Trained on shorter and scored on longer prefixes it is {longer:.0%}.")
    if scrubbed is not None:
        one, _, *others = scrubbed["recovered"].values()  # no next symbols, which the site may hold
        if one <= max(others):
            doubts.append(
                f"Of the loss, another prefix with the same {scrubbed['variable']} recovers "
                f"{one:.0%} there, one that means nothing {max(others):.0%}."
            )
    return Claim(
        f"Exchanging {name} in {about['rank']} of {exchange['width']} dimensions at "
        f"{about['site']} gives what the language says in {{}} of pairs, "
        f"{MEASURES[measure]}",
        value,
        result["low"],
        result["high"],
        int(result["units"]),
        f"prefixes in {result['words']:.0f} pairs, none of which chose the site",
        "bootstrap over prefixes",
        controls,
        ".0%",
        doubts=doubts,
        notes=[
            f"The whole activation gives {result['whole']:.0%} there. The {exchange['values']} "
            f"values have {exchange['behaviours']} different sets of next symbols."
        ],
    )


def _beside(result: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """The value that DAS reaches, and those of its controls."""
    by = result["values"]
    return by["DAS"], {name: by[method] for method, name in CONTROLS.items() if method in by}


def _further(measures: Mapping[str, Any], first: str) -> list[str]:
    """The other measures: of the two ways to carry a value the one that was better where both were
    chosen, and no next symbols, which a course tells too."""
    carried = [name for name in measures if "carried" in name]
    best = max(carried, key=lambda name: measures[name]["chosen"], default="")
    left_out = {first, "next symbols", *carried} - {best}
    return [name for name in measures if name not in left_out]


def state_claim(state: Mapping[str, Any]) -> Claim:
    """The effect of putting in the mean of a state."""
    return Claim(
        f"With the mean of the wanted state put in at {state['site']}, exactly its symbols may "
        "follow in {} of the cases",
        *measured(state, "value", "low", "high", "units"),
        f"prefixes in {state['words']:.0f} cases, none of which chose the site",
        "bootstrap over prefixes",
        {
            "a random direction, as far": state["random"],
            "the untrained network": state["untrained"],
        },
        ".0%",
    )


def to_a_state(table: pd.DataFrame) -> dict[str, Any] | None:
    """The site where steering to a state works best, chosen apart; each control at its own site."""
    rows = table[table["experiment"] == "steering"]
    kinds = (("trained", STEERED), ("trained", RANDOM_STATE), ("untrained", STEERED))
    parts = [rows[(rows["model"] == model) & (rows["method"] == way)] for model, way in kinds]
    if not all({"choose", "score"} <= set(part["split"]) for part in parts):
        return None
    best, random, untrained = (_at(part, *chosen(part)).iloc[0] for part in parts)
    fields = best[["site", "variable", "value", "low", "high", "words", "units"]].to_dict()
    return {**fields, "random": random["value"], "untrained": untrained["value"]}


def scrubbed_there(table: pd.DataFrame, exchange: dict[str, Any] | None) -> dict[str, Any] | None:
    """The result of scrubbing at the site of the first measure of DAS."""
    rows = table[(table["experiment"] == "scrubbing") & (table["measure"] == "loss recovered")]
    if exchange is None or rows.empty:
        return None
    site = next(iter(exchange["measures"].values()))["site"]
    rows = rows[(rows["site"] == site) & (rows["method"] != ANY)]
    recovered = rows.set_index("method")["value"].to_dict()  # first as the variable
    return {"variable": rows["variable"].iloc[0], "recovered": recovered}
