"""The answer about influence in words and as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import QUIET, TRAINED, UNTRAINED, figures
from analyses.claims import Claim
from analyses.questions.training.of_lines.drawn_lines import named
from analyses.questions.training.of_lines.views import CLAIMED
from interp.statistics import brackets, weighted_sum

MODELS = {"trained": TRAINED, "untrained": UNTRAINED}


def side_by_side(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """By part, a row per model and method, and a column for each measure."""
    shown = table.assign(shown=[_shown(*row) for row in table[["value", "low", "high"]].to_numpy()])
    keys, parts = ["model", "method"], {}
    for part, own in shown.groupby("part", sort=False):
        wide = own.pivot(index=keys, columns="measure", values="shown")
        order = own[keys].drop_duplicates()
        parts[str(part)] = order.merge(wide.reset_index(), on=keys).fillna("-")
    return parts


def _shown(value: float, low: float, high: float) -> str:
    if value != value:
        return "-"
    return f"{value:.2f}{brackets(low, high, '.2f')}"


def claims(table: pd.DataFrame, findings: Mapping[str, int]) -> list[Claim]:
    """What EK-FAC says of the lines, in each part, beside the best of its controls: every method at
    the first weights, the loss, chance."""
    made = []
    for (_, measure), own in table.groupby(["part", "measure"], sort=False):
        rows = own.set_index(["model", "method"])[["value", "low", "high"]].astype(float)
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
            made.append(named(shares, round(chance * lines), lines, CULPRITS[measure]))
    return made


CULPRITS = {
    "precision, itself": "lines with turned labels",
    "precision": "lines with the shortcut",
}
"""The measures that count culprits, and which these are."""


def _ordered(rows: pd.DataFrame, untrained: pd.DataFrame, findings: Mapping[str, int]) -> Claim:
    """That trainings without half of the lines are in the order that EK-FAC foretells."""
    controls = pd.concat([untrained, rows.loc[["random"]]])
    model, method = controls["value"].idxmax()
    told = [f"{_called(*at)} {_shown(*row)}" for at, *row in rows.itertuples(name=None)]
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
        {"no difference": 0.0},
        "+.2f",
        notes=[f"LDS, mean over {findings['words']} words: {', '.join(told)}."],
    )


def _called(model: str, method: str) -> str:
    return f"{method} of the untrained network" if model == "untrained" else method


def chart(table: pd.DataFrame, columns: int = 2) -> ChartType:
    """A panel for each part and measure, so many side by side."""
    panels = []
    order = table["method"].unique().tolist()
    for (part, measure), own in table.groupby(["part", "measure"], sort=False):
        own = own.assign(kind=own["model"].where(own["model"].isin(list(MODELS)), "control"))
        base = alt.Chart(own).encode(
            y=alt.Y("method:N", sort=order, title=None).axis(labelLimit=220),
            color=alt.Color("kind:N", title=None)
            .scale(domain=[*MODELS, "control"], range=[*MODELS.values(), QUIET])
            .legend(orient="top"),
            tooltip=["method", "model", *figures("value", "low", "high")],
        )
        span = base.mark_rule().encode(x=alt.X("low:Q", title=None), x2="high:Q")
        points = base.mark_point(filled=True, size=60, opacity=1)
        title = part if measure == "LDS" else f"{part}: {measure}"
        panels.append(
            alt.layer(span, points.encode(x=alt.X("value:Q", title=None))).properties(
                title=f"{title}, LDS" if measure == "LDS" else title,
                width=240,
                height=alt.Step(18),
            )
        )
    return alt.concat(*panels, columns=columns).resolve_scale(x="independent")
