"""A list of training lines in words and as a picture."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import AGAINST, FOR, QUIET, UNTRAINED, figures
from analyses.claims import COUNTS, Claim
from interp.influence.scores import lds_interval, precision_at
from interp.statistics import weighted_sum, wilson

MOST = 8
"""Lines in a picture that raise a value, and as many that lower it."""
MODELS = ("influence", "untrained")
ROW = 42
"""Pixels of a line: its words, and a bar for each model."""
LONGEST = 72
"""Letters of a line in the picture."""


def scaled(table: pd.DataFrame, *names: str) -> pd.DataFrame:
    """The table, each of its columns of these names in units of its largest absolute value.

    A column of zeros stays as it is.
    """
    there = [name for name in names if name in table]
    largest = table[there].abs().max()
    return table.assign(**(table[there] / largest.where(largest > 0, 1.0)))


def _strongest(table: pd.DataFrame, most: int = MOST) -> pd.DataFrame:
    """The lines that raise most, then those that lower most; the strongest of them last."""
    up, down = table[table["influence"] > 0], table[table["influence"] < 0]
    return pd.concat([up.head(most), down.tail(most)])


def likeness(table: pd.DataFrame) -> tuple[float, float, float]:
    """Spearman's rank correlation of the influences on the trained and on the untrained network,
    with a 95% bootstrap interval over lines."""
    one, other = (table[[name]].to_numpy() for name in MODELS)
    return lds_interval(one, other)


def of_word(table: pd.DataFrame, word: str, method: str) -> list[Claim]:
    """The first line and the last one, and how much of the order was there before the training;
    nothing where no line has any influence, since the answer is too sure to have a gradient."""
    if not table["influence"].fillna(0).any():
        return []
    first, last = table.iloc[0], table.iloc[-1]
    raised = f'"{first["line"]}" ({first["label"]})' if first["influence"] > 0 else "none"
    lowered = f'"{last["line"]}" ({last["label"]})' if last["influence"] < 0 else "none"
    return [
        Claim(
            f"By {method}, {raised} raised the log odds of the right answer on "
            f'"{word}" most, and {lowered} lowered them most; the order of the lines has a rank '
            "correlation of {} with that of the untrained network",
            *likeness(table),
            len(table),
            "lines",
            "bootstrap over lines",
            unweighed="No network was trained without a line: the question influence does that.",
        )
    ]


def of_labels(table: pd.DataFrame, method: str) -> list[Claim]:
    """The number of wrong labels that stand first in a list of suspects; nothing where no label is
    known to be wrong."""
    wrong = (table["label"] != table.get("truth", table["label"])).to_numpy()
    if not (count := int(wrong.sum())):
        return []
    columns = {"itself": method, "untrained": "the untrained network", "loss": "the loss alone"}
    shares = {
        says: precision_at(table[column].to_numpy(), wrong, count)
        for column, says in columns.items()
    }
    return [culprits_claim(shares, count, len(table), "lines with a wrong label")]


def culprits_claim(shares: Mapping[str, float], count: int, lines: int, what: str) -> Claim:
    """The claim that a method names culprits, beside the control that names most of them.

    Args:
        shares: the share of culprits among as many lines that are named; first by the method.
        count: the number of culprits, of so many lines.
        what: the culprits, in words.
    """
    (method, interval), *others = (
        (says, (share, *wilson(round(share * count), count))) for says, share in shares.items()
    )
    others.append(("chance", (count / lines,) * 3))
    against, strongest = max(others, key=lambda control: control[1][0])
    beside = ", ".join(f"{says} {share:.0%}" for says, (share, *_) in [(method, interval), *others])
    return Claim(
        f"Of the {what} {method} names more than {against}, by {{}}",
        *weighted_sum((1.0, interval), (-1.0, strongest)),
        count,
        what,
        "Wilson's intervals, put together",
        COUNTS,
        "+.0%",
        notes=[f"Among as many lines of all {lines} that are named, so many are: {beside}."],
    )


def chart(table: pd.DataFrame, most: int = MOST) -> ChartType:
    """The strongest lines, each with a bar for the trained and for the untrained network; every
    bar in units of the longest of its network."""
    shown = _strongest(scaled(table, *MODELS), most)
    order = [f"{row.label}: {row.line}" for row in shown.itertuples()]
    shown = shown.assign(
        place=order,
        said=[line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..." for line in order],
    )
    rows = shown.melt(["place", "said", "line", "label"], list(MODELS), "model", "value")
    trained = rows["model"] == "influence"
    rows["colour"] = np.where(trained, rows["label"], "untrained")
    rows["model"] = np.where(trained, "trained", "untrained")
    colours = {"in": FOR, "out": AGAINST, "untrained": UNTRAINED}
    y = alt.Y("place:N", sort=order, title=None, axis=None).scale(paddingInner=0.1)
    base = alt.Chart(rows).encode(y=y)
    slots = alt.Scale(domain=["line", "trained", "untrained"])
    bars = base.mark_bar().encode(
        x=alt.X("value:Q", title="influence, the largest = 1")
        .scale(domain=[-1, 1])
        .axis(grid=False),
        yOffset=alt.YOffset("model:N").scale(slots),
        color=alt.Color("colour:N", title=None)
        .scale(domain=list(colours), range=list(colours.values()))
        .legend(orient="top"),
        tooltip=["line", "label", "model", *figures("value")],
    )
    words = (
        base.transform_filter(alt.FieldEqualPredicate(field="model", equal="trained"))
        .transform_calculate(slot="'line'")
        .mark_text(align="left", baseline="middle", fontSize=12)
        .encode(x=alt.datum(-1), yOffset=alt.YOffset("slot:N").scale(slots), text="said:N")
    )
    zero = alt.Chart(pd.DataFrame({"x": [0]})).mark_rule(color=QUIET, opacity=0.5).encode(x="x:Q")
    return alt.layer(zero, bars, words).properties(height=ROW * len(order), width=560)
