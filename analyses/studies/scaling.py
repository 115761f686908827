"""The fall of the loss above a language's entropy with parameters, words or compute.

Is a jump of exactness a jump of the network, or of the measure? A loss may fall evenly while
the share of members without any mistake leaps (Schaeffer et al. 2023).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import curve, dots
from analyses.charts.sweeps import settings_of
from analyses.charts.theme import colours, figures, share
from analyses.options.studies import Size
from analyses.studies.sweeps import run as sweeps
from interp.power_laws import LAWS, exponent_interval
from interp.statistics import brackets
from models.errors import UserError, lab

COLUMNS: Mapping[Size, str] = {
    "parameters": "parameters",
    "words": "loss.words",
    "compute": "loss.compute",
}
CALLED = {
    "parameters": "parameters",
    "words": "different words in training",
    "compute": "floating-point operations of training",
}
DECADES = 3
"""The fewest powers of ten that sizes must span for a power law to be told."""
SIZES = 5
"""The fewest sizes that laws are fitted to."""
APART = 2.0
"""A law is called better if its AICc is smaller by more than this (Burnham and Anderson 2002)."""
JUMP = 0.5
"""Exactness jumps where it rises by at least so much from one size to the next."""
STEEP = 2.0
"""The loss jumps with it if it falls there so many times as fast as it does on average."""


def points(folder: Path, size: Size) -> pd.DataFrame:
    """The runs of a sweep, as ``of_table`` reads them.

    Raises:
        UserError: the folder holds no sweep, or one that did not measure the loss above an entropy.
    """
    result = sweeps.load(folder)
    if result is None:
        raise UserError(
            f"{folder} holds no sweep: make one with `{lab('sweep', 'scaling')}`, then ask "
            f"`{lab('show', 'runs/scaling', 'scaling')}`"
        )
    if "loss.excess" not in result.table:
        raise UserError(f'{folder} did not measure the loss: add measures = ["loss"] to its file')
    kept = of_table(result.table, result.arguments["by"], size)
    if kept.empty:
        raise UserError(
            f"of no run of {folder} a loss above the entropy is known: sweep language models "
            '(objective = "language-model") on languages that say how likely their words are'
        )
    return kept


def of_table(table: pd.DataFrame, by: Sequence[str], size: Size) -> pd.DataFrame:
    """One row per run of a sweep: language, setting, seed, size, excess (nats per token above the
    language's entropy), exact (share of members with every next-symbol set right, mean over the
    lengths inside the training window; NaN if none was tested).

    Args:
        table: the table of a sweep that measured the loss.
        by: the columns that make a setting.
    """
    inside = table[table["length"] <= table["window"]]
    exact = inside.astype({"exact": float}).groupby("run")["exact"].mean()
    runs = table.drop_duplicates("run")
    kept = runs[["run", "language", "seed"]].assign(
        setting=settings_of(runs, by),
        size=runs[COLUMNS[size]].astype(float),
        excess=runs["loss.excess"].astype(float),
    )
    kept = kept[kept["excess"] > 0].assign(exact=lambda rows: rows["run"].map(exact))
    return kept.reset_index(drop=True)


def laws(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per language and law.

    Args:
        runs: the table of ``points``.

    Columns: language, law (of ``LAWS``), worse (AICc less that of the best law), a, alpha, c (of
    the law a N^-alpha + c), low, high (95% interval of alpha, bootstrapped over seeds), decades
    (powers of ten that the sizes span), sizes (settings), seeds (of the setting with the fewest).
    A language with too few sizes has none.
    """
    records = []
    for language, rows in runs.groupby("language", sort=False):
        settings = rows.groupby("setting")["size"]
        about: dict[str, Any] = {
            "decades": float(np.log10(rows["size"].max() / rows["size"].min())),
            "sizes": settings.ngroups,
            "seeds": int(settings.size().min()),
        }
        if about["sizes"] < SIZES:
            continue
        size, loss = rows["size"].to_numpy(), rows["excess"].to_numpy()
        fits = [law(size, loss) for law in LAWS.values()]
        best = min(law.aicc for law in fits)
        group = rows["setting"].astype("category").cat.codes.to_numpy()
        for law in fits:
            record = {"language": language, "law": law.name, "worse": law.aicc - best}
            if law.name == "power":
                ends = exponent_interval(size, loss, group)
                record |= dict(law.parameters) | dict(zip(("low", "high"), ends, strict=True))
            records.append(record | about)
    columns = ["language", "law", "worse", "a", "alpha", "c", "low", "high"]
    return pd.DataFrame(records, columns=[*columns, "decades", "sizes", "seeds"])


def means(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per language and setting, by size: language, setting, size (mean), excess (geometric
    mean), exact (mean), seeds."""
    logs = runs.assign(excess=np.log(runs["excess"]))
    table = logs.groupby(["language", "setting"], sort=False).agg(
        size=("size", "mean"),
        excess=("excess", "mean"),
        exact=("exact", "mean"),
        seeds=("seed", "size"),
    )
    table = table.reset_index().assign(excess=lambda rows: np.exp(rows["excess"]))
    order = {name: place for place, name in enumerate(table["language"].unique())}
    return table.sort_values(
        ["language", "size"],
        key=lambda column: column.map(order) if column.name == "language" else column,
        ignore_index=True,
    )


def in_words(runs: pd.DataFrame, table: pd.DataFrame, size: Size) -> list[str]:
    """Two sentences per language: its law, and where exactness jumps.

    Args:
        runs: the table of ``points``.
        table: the table of ``laws``.
    """
    by_setting = means(runs)
    return [
        f"{name}: {_law_of(table[table['language'] == name], size)}. "
        f"{_jump_of(by_setting[by_setting['language'] == name], size)}"
        for name in runs["language"].unique()
    ]


def _law_of(rows: pd.DataFrame, size: Size) -> str:
    if rows.empty:
        return f"too few sizes for a law (at least {SIZES} are needed)"
    fits = rows.set_index("law")
    power, best = fits.loc["power"], fits["worse"].idxmin()
    interval = f"{brackets(power['low'], power['high'], '.2f')}" if power["seeds"] > 1 else ""
    floor = f" + {power['c']:.2g}" if power["c"] else ""
    formula = f"excess = {power['a']:.3g} N^-{power['alpha']:.2f}{interval}{floor}"
    if power["worse"] > APART:
        return (
            f"no power law: the {best} law describes the losses better (AICc {power['worse']:.1f} "
            f"less); the power law would be {formula}"
        )
    if power["low"] <= 0:
        return f"no power law: the exponent may be 0 ({formula})"
    if power["decades"] < DECADES:
        return (
            f"{formula}, but {size} span {power['decades']:.1f} powers of ten, and {DECADES} are "
            "needed to tell a power law"
        )
    others = [law for law in fits.index if law != "power" and fits.loc[law, "worse"] <= APART]
    level = f"; not told apart from: {', '.join(others)}" if others else ""
    return f"{formula} over {power['decades']:.1f} powers of ten of {size}{level}"


def _jump_of(rows: pd.DataFrame, size: Size) -> str:
    """The largest rise of exactness from one size to the next, and the fall of the loss there."""
    # Two settings may be of the same size: a slope needs different ones.
    logs = rows.dropna(subset=["exact"]).assign(excess=lambda some: np.log(some["excess"]))
    rows = logs.groupby("size", as_index=False)[["excess", "exact"]].mean()
    rises = rows["exact"].diff()
    if len(rows) < 2 or not rises.max() >= JUMP:
        return "Exactness does not jump."
    at = int(rises.to_numpy()[1:].argmax()) + 1
    before, after = rows.iloc[at - 1], rows.iloc[at]
    fall = -np.diff(rows["excess"]) / np.diff(np.log(rows["size"]))
    whole = rows["excess"].iloc[0] - rows["excess"].iloc[-1]
    mean = whole / np.log(rows["size"].iloc[-1] / rows["size"].iloc[0])
    steep = fall[at - 1] / mean if mean > 0 else np.nan
    where = f"from {before['size']:.3g} to {after['size']:.3g} {size}"
    sentence = (
        f"Exactness jumps by {rises.iloc[at]:.2f} {where}; the loss falls there {steep:.1f} times"
    )
    place = "in the network, too" if steep >= STEEP else "in the measure"
    return f"{sentence} as fast as on average: the jump is {place}."


def chart(runs: pd.DataFrame, size: Size) -> ChartType:
    """The excess loss by size on two logarithmic axes, with the power law; exactness below it.
    A point per run."""
    color = colours("language", list(runs["language"].unique()))
    hints = ["language", "setting", "seed", *figures("size", digits=0), *figures("excess", "exact")]
    x = alt.X("size:Q", title=CALLED[size]).scale(type="log", nice=False)

    def drawn(y: alt.Y, lines: pd.DataFrame, height: int) -> alt.LayerChart:
        through = curve(lines, x, y, [], color, ends=None, size=0)
        picture = dots(runs, x, y, hints, color, ends=None, size=25) + through
        return picture.properties(width=340, height=height)

    loss = alt.Y("excess:Q", title="excess loss (nats per token)").scale(type="log")
    return drawn(loss, _curves(runs), 240) & drawn(share(alt.Y, "exact", "exact"), means(runs), 120)


def _curves(runs: pd.DataFrame) -> pd.DataFrame:
    """The power law of each language at 50 sizes."""
    parts = []
    for language, rows in runs.groupby("language", sort=False):
        if rows["setting"].nunique() < SIZES:
            continue
        size = rows["size"].to_numpy()
        at = np.geomspace(size.min(), size.max(), 50)
        law = LAWS["power"](size, rows["excess"].to_numpy())
        parts.append(pd.DataFrame({"language": language, "size": at, "excess": law.predict(at)}))
    return pd.concat(parts) if parts else runs.iloc[:0][["language", "size", "excess"]]
