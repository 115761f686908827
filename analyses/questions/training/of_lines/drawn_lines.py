"""A list of training lines in words and as a picture."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.theme import AGAINST, FOR, QUIET, UNTRAINED, figures
from interp.influence.scores import lds_interval, precision_at
from interp.statistics import brackets

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


def strongest(table: pd.DataFrame, most: int = MOST) -> pd.DataFrame:
    """The lines that raise most, then those that lower most; the strongest of them last."""
    up, down = table[table["influence"] > 0], table[table["influence"] < 0]
    return pd.concat([up.head(most), down.tail(most)])


def likeness(table: pd.DataFrame) -> tuple[float, float, float]:
    """Spearman's rank correlation of the influences on the trained and on the untrained network,
    with a 95% bootstrap interval over lines."""
    one, other = (table[[name]].to_numpy() for name in MODELS)
    return lds_interval(one, other)


def in_words(table: pd.DataFrame, word: str, method: str) -> str:
    """The first line and the last one, and how much of the order was there before the training."""
    first, last = table.iloc[0], table.iloc[-1]
    raised = f'"{first["line"]}" ({first["label"]})' if first["influence"] > 0 else "none"
    lowered = f'"{last["line"]}" ({last["label"]})' if last["influence"] < 0 else "none"
    said = (
        f"By {method}, of {len(table)} lines {raised} raised the log odds of the right answer on "
        f'"{word}" most, and {lowered} lowered them most.'
    )
    if "untrained" not in table:
        return f"{said} {method} adds up over the training: there is no untrained control."
    value, low, high = likeness(table)
    return (
        f"{said} The order of the lines has a rank correlation of {value:.2f}"
        f"{brackets(low, high, '.2f')} with that of the untrained network (95% bootstrap interval "
        "over lines)."
    )


def wrong_in_words(table: pd.DataFrame, method: str) -> str:
    """How many of the wrong labels stand first in a list of suspects, beside its controls."""
    if "truth" not in table:
        return "The rule of these lines is not known, and so not which labels are wrong."
    wrong = (table["label"] != table["truth"]).to_numpy()
    count = int(wrong.sum())
    if not count:
        return (
            f"By the rule of the language all {len(table)} labels are right: whatever stands first "
            f"is a false alarm ({method})."
        )
    controls = {"untrained": "the untrained network", "loss": "the loss alone"}
    found = {
        says: precision_at(table[name].to_numpy(), wrong, count)
        for name, says in {"itself": method, **controls}.items()
        if name in table
    }
    shares = ", ".join(f"{says} {value:.0%}" for says, value in found.items())
    return (
        f"By the rule of the language {count} of {len(table)} labels are wrong. The share of wrong "
        f"ones among the first {count} lines: {shares}, random {count / len(table):.0%}."
    )


def chart(table: pd.DataFrame, most: int = MOST) -> ChartType:
    """The strongest lines, each with a bar for the trained and for the untrained network; every
    bar in units of the longest of its network."""
    shown = strongest(scaled(table, *MODELS), most)
    order = [f"{row.label}: {row.line}" for row in shown.itertuples()]
    shown = shown.assign(
        place=order,
        said=[line if len(line) <= LONGEST else f"{line[: LONGEST - 3]}..." for line in order],
    )
    there = [name for name in MODELS if name in shown]
    rows = shown.melt(["place", "said", "line", "label"], there, "model", "value")
    trained = rows["model"] == "influence"
    rows["colour"] = np.where(trained, rows["label"], "untrained")
    rows["model"] = np.where(trained, "trained", "untrained")
    colours = {"in": FOR, "out": AGAINST}
    if "untrained" in there:
        colours["untrained"] = UNTRAINED
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
