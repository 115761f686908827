"""What is told of interchange and scrubbing: every method at the site that it chose itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analyses.questions.trials.exchanging import ARBITRARY, MEASURES, chosen
from analyses.questions.trials.prefixes import Prefixes
from analyses.questions.trials.states import RANDOM_STATE, STEERED
from interp.causal.scrubbing import ANY
from interp.statistics import brackets

UNTRAINED, LONGER = "DAS, untrained model", "DAS, longer prefixes"
ONE = "DAS, one dimension"
CONTROLS = {
    UNTRAINED: "the untrained model",
    ARBITRARY: "arbitrary targets",
    "random subspace": "a random subspace, moved as far",
    "none": "nothing exchanged",
}


def exchanged(table: pd.DataFrame, found: Prefixes | None) -> dict[str, Any] | None:
    """Of every measure: what DAS chose and reaches, and what the controls reach.

    Keys: values, behaviours (how many different ones the variables and the next symbols have),
    prefixes (how many there are), ends (how many of them may end), width (of the activation),
    measures. Of a measure: site, rank, chosen (its value where it was chosen), variables. Of a
    variable: values (by method, each at the site and rank that it chose), low, high, words, units
    (of DAS), whole (the whole activation at the site of DAS). None where nothing was exchanged.
    """
    rows = table[table["experiment"] == "interchange"]
    if found is None or rows.empty:
        return None
    measures = {m: _of_measure(rows[rows["measure"] == m]) for m in rows["measure"].unique()}
    return {
        "values": len(found.behaviours),
        "behaviours": len(set(found.behaviours.values())),
        "prefixes": len(found.words),
        "ends": int(found.ends.sum()),
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
    own = rows[rows["method"] == "DAS"]
    site, rank = chosen(own)
    if rank > 1:
        one = own[own["amount"] == 1]
        picked[ONE] = _at(one, *chosen(one))
    whole = rows[rows["method"] == "whole activation"]
    whole = _at(whole, site, int(whole["amount"].iloc[0]))
    variables = {}
    for name, found in picked["DAS"].groupby("variable", sort=False):
        values = {m: _value(some, name) for m, some in picked.items()}
        if len(longer):
            values[LONGER] = _value(longer, name)
        told = found.iloc[0][["low", "high", "words", "units"]].to_dict()
        variables[str(name)] = {"values": values, **told, "whole": _value(whole, name)}
    best = own[(own["site"] == site) & (own["amount"] == rank) & (own["split"] == "choose")]
    best = best["value"].mean()
    return {"site": site, "rank": rank, "chosen": float(best), "variables": variables}


def _at(rows: pd.DataFrame, site: str, rank: int) -> pd.DataFrame:
    there = (rows["site"] == site) & (rows["amount"] == rank)
    return rows[there & (rows["split"] == "score")]


def _value(rows: pd.DataFrame, variable: object) -> float:
    return float(rows.loc[rows["variable"] == variable, "value"].iloc[0])


def exchange_said(exchange: dict[str, Any] | None) -> list[str]:
    """Sentences about the measures of interchange."""
    if exchange is None:
        return []
    said, measures = [], exchange["measures"]
    told = [m for m in MEASURES.values() if m in measures and not _weaker(m, measures)]
    for measure in sorted(told, key=lambda name: name != "course, read again"):
        about = measures[measure]
        for name, found in about["variables"].items():
            by = found["values"]
            said.append(
                f"Exchanging {name} in {about['rank']} of {exchange['width']} dimensions at "
                f"{about['site']} ({measure}): as the language says in {by['DAS']:.0%}"
                f"{brackets(found['low'], found['high'], '.0%')} of {found['words']:.0f} pairs "
                f"({found['units']:.0f} prefixes{_also_said(by)}). "
                "Controls, each at its own best site: "
                + ", ".join(f"{CONTROLS[each]} {by[each]:.0%}" for each in CONTROLS if each in by)
                + f". The whole activation there: {found['whole']:.0%}{_size_alone(found)}."
            )
    carried = any("carried" in measure for measure in measures)
    said.append(
        f"The {exchange['values']} values have {exchange['behaviours']} different sets of next "
        f"symbols; {exchange['ends']} of the {exchange['prefixes']} prefixes may end."
        + (" Only a value that is carried is more than its set of next symbols." if carried else "")
    )
    return said


def _weaker(measure: str, measures: dict[str, Any]) -> bool:
    """Whether the sentence leaves a measure out: "next symbols" where a course has the same
    subspace, and of the two ways to carry a value the one that was worse where both were chosen."""
    if measure == "next symbols":
        return "course, read again" in measures
    ways = [m for m in ("course, carried", "course, carried in proportion") if m in measures]
    return measure in ways and measure != max(ways, key=lambda m: measures[m]["chosen"])


def _also_said(by: dict[str, float]) -> str:
    also = {ONE: "in one dimension", LONGER: "trained on shorter and scored on longer prefixes"}
    return "".join(f"; {what} {by[name]:.0%}" for name, what in also.items() if name in by)


def _size_alone(found: dict[str, Any]) -> str:
    if found["whole"] < found["values"]["DAS"]:
        return ""
    return " (the score is no evidence then, but that few dimensions suffice)"


def to_a_state(table: pd.DataFrame) -> dict[str, Any] | None:
    """The site where steering to a state works best, chosen apart; its control at its own site."""
    rows = table[table["experiment"] == "steering"]
    steered, drawn = (rows[rows["method"] == method] for method in (STEERED, RANDOM_STATE))
    if not {"choose", "score"} <= set(steered["split"]):
        return None
    best = _at(steered, *chosen(steered)).iloc[0]
    random = _at(drawn, *chosen(drawn)).iloc[0]
    told = best[["site", "variable", "value", "low", "high", "words", "units"]].to_dict()
    return {**told, "random": random["value"]}


def scrubbed_there(table: pd.DataFrame, exchange: dict[str, Any] | None) -> dict[str, Any] | None:
    """What scrubbing says of the site of the first measure of DAS."""
    rows = table[(table["experiment"] == "scrubbing") & (table["measure"] == "loss recovered")]
    if exchange is None or rows.empty:
        return None
    site = next(iter(exchange["measures"].values()))["site"]
    rows = rows[(rows["site"] == site) & (rows["method"] != ANY)]
    same = rows.iloc[0]  # as the variable
    told = same[["variable", "low", "high", "units"]].to_dict()
    return {"site": site, **told, "recovered": rows.set_index("method")["value"].to_dict()}


def scrubbed_said(scrubbed: dict[str, Any] | None) -> list[str]:
    """A sentence about scrubbing."""
    if scrubbed is None:
        return []
    (own, value), *others = scrubbed["recovered"].items()
    if np.isnan(value):
        return []
    return [
        f"At {scrubbed['site']} the activation of another prefix with the {own} recovers "
        f"{value:.0%}{brackets(scrubbed['low'], scrubbed['high'], '.0%')} of the loss that any "
        f"other prefix adds ({scrubbed['units']:.0f} prefixes; "
        + ", ".join(f"{name} {share:.0%}" for name, share in others)
        + ")."
    ]
