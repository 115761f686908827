"""The answer about influence in words and as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import panels, points
from analyses.charts.theme import QUIET, TRAINED, UNTRAINED, colours, figures, named
from analyses.claims import COUNTS, Claim, interval_text
from analyses.questions.training.of_lines.drawn_lines import culprits_claim
from analyses.questions.training.of_lines.views import CLAIMED
from interp.statistics import weighted_sum

MODELS = {"trained": TRAINED, "untrained": UNTRAINED}


def side_by_side(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Tables by part: a row per model and method, and a column for each measure."""
    shown = table.assign(
        shown=[interval_text(*row) for row in table[["value", "low", "high"]].to_numpy()]
    )
    keys, parts = ["model", "method"], {}
    for part, rows in shown.groupby("part", sort=False):
        wide = rows.pivot(index=keys, columns="measure", values="shown")
        order = rows[keys].drop_duplicates()
        parts[str(part)] = order.merge(wide.reset_index(), on=keys).fillna("-")
    return parts


def claims(table: pd.DataFrame, findings: Mapping[str, int]) -> list[Claim]:
    """EK-FAC's findings about the lines, in each part, beside the best of its controls: every
    method at the first weights, the loss, chance."""
    made = []
    for (_, measure), part in table.groupby(["part", "measure"], sort=False):
        rows = part.set_index(["model", "method"])[["value", "low", "high"]].astype(float)
        untrained = rows.loc[["untrained"]].nlargest(1, "value")
        if measure == "LDS":
            made.append(_ordered(rows, untrained, findings))
        elif measure in CULPRITS:
            chance = rows.loc[("random", "random"), "value"]
            shares = {CLAIMED: rows.loc[("trained", CLAIMED), "value"]}
            shares["the untrained network"] = untrained["value"].iloc[0]
            if ("trained", "loss") in rows.index:
                shares["the loss alone"] = rows.loc[("trained", "loss"), "value"]
            lines = findings["lines"]
            made.append(culprits_claim(shares, round(chance * lines), lines, CULPRITS[measure]))
    return made


CULPRITS = {
    "precision, itself": "lines with turned labels",
    "precision": "lines with the shortcut",
}
"""The measures that count culprits, and which these are."""


def _ordered(rows: pd.DataFrame, untrained: pd.DataFrame, findings: Mapping[str, int]) -> Claim:
    """The claim that trainings without half of the lines are in the order that EK-FAC foretells."""
    controls = pd.concat([untrained, rows.loc[["random"]]])
    model, method = controls["value"].idxmax()
    scores = [f"{_called(*at)} {interval_text(*row)}" for at, *row in rows.itertuples(name=None)]
    return Claim(
        f"{CLAIMED} orders trainings without half of the lines better than "
        f"{_called(model, method)}, by {{}} of rank correlation",
        *weighted_sum(
            (1.0, tuple(rows.loc[("trained", CLAIMED)])),
            (-1.0, tuple(controls.loc[(model, method)])),
        ),
        findings["trainings"],
        "trainings",
        "bootstraps over trainings, put together",
        COUNTS,
        "+.2f",
        notes=[f"LDS, mean over {findings['words']} words: {', '.join(scores)}."],
    )


def _called(model: str, method: str) -> str:
    return f"{method} of the untrained network" if model == "untrained" else method


def chart(table: pd.DataFrame, columns: int = 2) -> ChartType:
    """A panel for each part and measure, so many side by side."""
    mask = table["model"].isin(list(MODELS))
    rows = table.assign(kind=table["model"].where(mask, "control"))
    y = named(alt.Y, "method", table["method"].unique().tolist(), labelLimit=220)
    tips = ["method", "model", *figures("value", "low", "high")]
    color = colours("kind", [*MODELS, "control"], [*MODELS.values(), QUIET])
    drawn: dict[str, ChartType] = {}
    for (part, measure), group in rows.groupby(["part", "measure"], sort=False):
        title = f"{part}, LDS" if measure == "LDS" else f"{part}: {measure}"
        picture = points(group, alt.X("value:Q", title=None), y, tips, color)
        drawn[title] = picture.properties(width=240)
    return panels(drawn, columns).resolve_scale(x="independent")
