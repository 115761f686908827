"""The smallest Transformer that learns a language, and how far it holds.

A capacity map of a sweep that varies at least two of depth, heads and width. OUT keeps, beside the
sweep's own files,

    OUT/results/capacity-1/    a row per language and size

A length is *right* if every next-symbol set of its members is right (where a run was taught
verdicts alone, every verdict) and no other word is accepted. Members alone would not be enough: a
network may accept every word that is longer than those it knows. A seed *learns* a language if all
lengths tested inside its training window are right. It *holds* up to the last length before the
first that is not right.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, save
from analyses.charts.marks import heat
from analyses.charts.sweeps import BRIGHT, curves, setting
from analyses.charts.theme import CHOSEN, QUIET, figures, named

NAME = "capacity"
QUESTION = "What is the smallest Transformer that learns a language, and how far does it hold?"
SIZES = {"model.n_layers": "layer", "model.n_heads": "head", "model.d_model": "width"}
"""The sizes that bound a Transformer, in the order in which sentences name them."""

MARK, NEAR = CHOSEN, "#6b8fb5"


def has_map(table: pd.DataFrame, by: Sequence[str]) -> bool:
    """Whether two sizes vary, and lengths inside the window were tested."""
    return len(_sizes_of(by)) >= 2 and bool((table["length"] <= table["window"]).any())


def _sizes_of(by: Sequence[str]) -> list[str]:
    """The sizes among the varied fields."""
    return [key for key in SIZES if key in by]


def _accuracy(table: pd.DataFrame) -> pd.Series:
    """The mean of two shares: of members that are exact (accepted, where exactness is not defined),
    and of others that are rejected. It is 1 if a row is right."""
    members = table["exact"].astype(float).fillna(table["members"].astype(float))
    return pd.concat([members, table["others"].astype(float)], axis=1).mean(axis=1)


def _by_run(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """One row per run that was tested inside its window, in the sweep's order.

    Columns: language, those of ``by``, seed, run, parameters, learned, holds (up to how many
    windows all lengths tested are right; 0 where the first is not), tested (how many windows).
    """
    rows = table.assign(right=_accuracy(table) == 1).sort_values("length", kind="stable")
    rows["held"] = rows["length"].where(rows.groupby("run")["right"].cummin())
    inside = rows[rows["length"] <= rows["window"]]
    first = table.drop_duplicates("run").set_index("run")
    first = first[first.index.isin(inside["run"])]
    by_run, window = rows.groupby("run"), first["window"]
    runs = first[["language", *by, "seed", "parameters"]].assign(
        learned=inside.groupby("run")["right"].all(),
        holds=by_run["held"].max().fillna(0) / window,
        tested=by_run["length"].max() / window,
    )
    columns = ["language", *by, "seed", "run", "parameters", "learned", "holds", "tested"]
    return runs.reset_index()[columns]


def capacity_map(table: pd.DataFrame, by: Sequence[str], share: float = 1.0) -> pd.DataFrame:
    """One row per language, other setting and size, the smallest first.

    Args:
        by: the fields that the sweep varies, sizes and other settings.
        share: the share of the seeds that must learn a language for a size to count as enough.

    Columns: language, those of ``by``, of (language and other settings, for reading), parameters,
    seeds, learned (how many of them learn it), enough, holds, holds_min, holds_max (training
    windows up to which all is right: mean, worst and best seed), tested (the most that holds can
    be), smallest (whether it is the size of fewest parameters that is enough; among equals the one
    with fewer layers, then heads, then width).
    """
    sizes = _sizes_of(by)
    others = [key for key in by if key not in sizes]
    runs = _by_run(table, by)
    keys = ["language", *others, *sizes]
    rows = runs.groupby(keys, sort=False).agg(
        parameters=("parameters", "max"),
        seeds=("seed", "size"),
        learned=("learned", "sum"),
        holds=("holds", "mean"),
        holds_min=("holds", "min"),
        holds_max=("holds", "max"),
        tested=("tested", "max"),
    )
    rows = rows.reset_index()
    names = [
        ", ".join([row["language"], *(setting(key, row[key]) for key in others)])
        for row in rows.to_dict("records")
    ]
    needed = [max(1, ceil(share * seeds - 1e-9)) for seeds in rows["seeds"]]
    rows.insert(len(keys), "of", names)
    rows["enough"] = rows["learned"] >= needed
    rank = pd.Series(range(len(rows)), rows.sort_values(["parameters", *sizes]).index)
    order = {name: index for index, name in enumerate(dict.fromkeys(names))}
    rows = rows.assign(first=rows["of"].map(order), rank=rank)
    rows = rows.sort_values(["first", "rank"], ignore_index=True).drop(columns=["first", "rank"])
    before = rows.groupby("of")["enough"].cumsum()
    rows["smallest"] = rows["enough"] & (before == 1)
    columns = ["of", "parameters", "seeds", "learned", "enough", "holds", "holds_min", "holds_max"]
    return rows[["language", *by, *columns, "tested", "smallest"]]


def sentences(table: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """A sentence per language (and other setting): the smallest size that is enough, and how far it
    holds."""
    return [_sentence(str(name), rows, by) for name, rows in table.groupby("of", sort=False)]


def _sentence(name: str, rows: pd.DataFrame, by: Sequence[str]) -> str:
    chosen = _chosen_of(rows)
    seeds, size = int(chosen["seeds"]), _size_of(chosen, _sizes_of(by))
    size += f" ({chosen['parameters']:,} parameters)"
    if not rows["learned"].any():
        if seeds > 1:
            return f"{name}: none of its {seeds} seeds learns it at any size tried."
        return f"{name}: its one seed does not learn it at any size tried."
    if not chosen["smallest"]:
        learned = f"learned by {_seeds(chosen)}"
        return f"{name}: no size tried is enough; at the nearest, {size}, it is {learned}."
    place = int(rows["enough"].to_numpy().argmax())
    larger = rows["enough"].iloc[place + 1 :]
    on = " on" if len(larger) and larger.all() else ""
    sentence = f"{name}: learned by {_seeds(chosen)} from {size}{on}"
    if not on:
        sentence = f"{name}: learned by {_seeds(chosen)} with {size}"
    if len(larger) and not on:
        sentence += f", and with {int(larger.sum())} of the {len(larger)} larger sizes"
    sentence += "; smaller sizes fail" if place else "; this is the smallest size tried"
    return f"{sentence}. {_holds(chosen)}"


def _seeds(row: pd.Series) -> str:
    """The seeds that learn a language at a size, in words."""
    learned, seeds = int(row["learned"]), int(row["seeds"])
    if learned < seeds:
        return f"{learned} of {seeds} seeds"
    return f"all {seeds} seeds" if seeds > 1 else "its one seed"


def _size_of(row: pd.Series | dict[str, Any], sizes: Sequence[str]) -> str:
    """The given sizes in words: "1 layer, 2 heads, width 8"."""
    parts = []
    for key in sizes:
        plural = "s" if row[key] > 1 else ""
        name = SIZES[key]
        parts.append(f"width {row[key]}" if name == "width" else f"{row[key]} {name}{plural}")
    return ", ".join(parts)


def _holds(row: pd.Series) -> str:
    low, high, tested = row["holds_min"], row["holds_max"], row["tested"]
    if low == tested:
        return f"It holds as far as tested, up to {tested:.3g} training windows."
    spread = "" if row["seeds"] == 1 else f" on average (seeds {low:.2g} to {high:.2g})"
    return f"It holds up to {row['holds']:.2g} training windows{spread}; {tested:.3g} were tested."


def _chosen_of(rows: pd.DataFrame) -> pd.Series:
    """The smallest size that is enough for a language. If none is, the one that comes nearest: the
    size that most seeds learn; among equals the one that holds furthest, then the smallest."""
    if rows["smallest"].any():
        return rows[rows["smallest"]].iloc[0]
    share = rows.assign(share=rows["learned"] / rows["seeds"])
    best = share.sort_values(["share", "holds"], ascending=False, kind="stable")
    return rows.loc[best.index[0]]


def findings(table: pd.DataFrame, by: Sequence[str]) -> dict[str, list[str]]:
    """{"capacity": a sentence per language}; empty where there is no map."""
    if not has_map(table, by):
        return {}
    return {NAME: sentences(capacity_map(table, by), by)}


def save_map(out: Path, result: Answer) -> None:
    """Keeps table and figure beside those of the sweep, if it has a map. Raises UserError if the
    folder cannot be written."""
    by = result.arguments["by"]
    if not has_map(result.table, by):
        return
    table = capacity_map(result.table, by)
    texts = sentences(table, by)
    answer = Answer(table, " ".join(texts), {NAME: texts}, result.arguments)
    save(out, NAME, QUESTION, answer, chart(result.table, by))


# -- the figure -----------------------------------------------------------------------------------


def chart(table: pd.DataFrame, by: Sequence[str], share: float = 1.0) -> ChartType:
    """A row per language: how many seeds learn it at each size, how far each size holds, and the
    accuracy by length, a line per seed. The smallest size that is enough has a frame, and its lines
    are coloured.

    Args:
        share: the share of ``capacity_map``.
    """
    cells = capacity_map(table, by, share)
    cells = cells.assign(frame=cells["smallest"])
    rows = []
    for name, part in cells.groupby("of", sort=False):
        panels = [
            _cells(part, by, "share", "seeds that learn it", [0, 1]),
            _cells(part, by, "holds", "windows it holds", [0, part["tested"].max()]),
            _lines(table, part, by),
        ]
        title = alt.Title(str(name), anchor="start", fontSize=15)
        rows.append(
            alt.hconcat(*panels, spacing=24)
            .resolve_scale(color="independent")
            .properties(title=title)
        )
    return alt.vconcat(*rows, spacing=28).resolve_scale(color="independent")


def _cells(
    part: pd.DataFrame, by: Sequence[str], value: str, title: str, domain: list[float]
) -> alt.LayerChart:
    """A heatmap of one language's sizes, the last of them across."""
    *down, across = _sizes_of(by)
    learned = part["learned"].astype(str) + "/" + part["seeds"].astype(str)
    shown = pd.DataFrame(
        {
            "down": [_size_of(row, down) for row in part.to_dict("records")],
            "across": part[across],
            "share": part["learned"] / part["seeds"],
            "holds": part["holds"],
            "text": learned if value == "share" else [f"{x:.2g}" for x in part["holds"]],
            "learned": learned,
            "worst": part["holds_min"],
            "best": part["holds_max"],
            "parameters": part["parameters"],
            "frame": part["frame"],
        }
    )
    order = part.sort_values(list(down))
    rows = list(dict.fromkeys(_size_of(row, down) for row in order.to_dict("records")))
    name = "heads" if SIZES[across] == "head" else SIZES[across]
    tips = ["down:N", alt.Tooltip("across:O", title=name), "parameters:Q", "learned:N"]
    bright = alt.datum[value] > BRIGHT * domain[1]
    heading = alt.Title(title, anchor="start", fontSize=12, fontWeight="normal")
    return heat(
        shown,
        alt.X("across:O", title=name).axis(labelAngle=0),
        named(alt.Y, "down", rows, labelLimit=0),
        [*tips, *figures("holds", "worst", "best", digits=2)],
        alt.Color(f"{value}:Q", legend=None).scale(domain=domain, scheme="viridis"),
        "text:N",
        alt.condition(bright, alt.value("black"), alt.value("white")),
        framed=alt.datum.frame,
        edge=False,
    ).properties(title=heading, width=44 * part[across].nunique(), height=26 * len(rows))


def _lines(table: pd.DataFrame, part: pd.DataFrame, by: Sequence[str]) -> alt.LayerChart:
    """Accuracy by length, a line per seed: in colour for the chosen size, grey for all others."""
    chosen, keys = _chosen_of(part), ["language", *by]
    others = [key for key in keys if key not in SIZES]
    rows = table[(table[others] == chosen[others]).all(axis=1)]
    lines = curves(rows.assign(accuracy=_accuracy(rows)), by, "accuracy")
    lines = lines.rename(columns={"right": "accuracy"})
    label = ", ".join(setting(key, chosen[key]) for key in by)
    colour = MARK if chosen["smallest"] else NEAR
    base = alt.Chart(lines).encode(
        x=alt.X("length:Q", title="word length").scale(nice=False, zero=False),
        y=alt.Y("accuracy:Q", title=None).scale(domain=[0, 1]).axis(format="%", tickCount=3),
        tooltip=["setting:N", "seed:N", "length:Q", *figures("accuracy")],
    )
    detail = base.encode(detail=["setting:N", "seed:N"])
    grey = detail.transform_filter(alt.datum.setting != label).mark_line(
        color=QUIET, strokeWidth=0.8, opacity=0.3
    )
    marked = detail.transform_filter(alt.datum.setting == label).mark_line(
        color=colour, strokeWidth=1.8, opacity=0.85
    )
    ends = lines[["window"]].drop_duplicates()
    window = alt.Chart(ends).mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="window:Q")
    which = "" if chosen["smallest"] else "nearest: "
    words = f"accuracy by length, per seed; {which}{_size_of(chosen, _sizes_of(by))}"
    heading = alt.Title(words, anchor="start", fontSize=12, fontWeight="normal", color=colour)
    rows_down = part[_sizes_of(by)[:-1]].drop_duplicates()
    return (grey + marked + window).properties(
        title=heading, width=250, height=max(78, 26 * len(rows_down))
    )
