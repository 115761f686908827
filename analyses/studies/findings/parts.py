"""Functions for the template of a page: tables and pictures, from kept tables alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.discovery import recovery_chart
from analyses.charts.measures import panels, side_by_side
from analyses.charts.sweeps import band_chart, chart, short
from analyses.options.studies import Size
from analyses.studies import scaling
from analyses.studies.findings.tables import DATA, Table, are_shares, with_interval
from analyses.studies.sweeps import over_seeds, paired
from analyses.studies.sweeps.further import FURTHER, MEANING, Name, is_share, name_of
from analyses.studies.sweeps.measures import Measure, by_seed
from analyses.studies.sweeps.summary import readable
from interp.statistics import brackets, seeds_interval, wilson
from models.errors import UserError

Of = Mapping[str, str]
"""Values by the columns of a table that have them."""


def _markdown(table: pd.DataFrame) -> str:
    """A table for a page."""
    head = [str(column) for column in table.columns]
    rows = [[str(cell) for cell in row] for row in table.itertuples(index=False)]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def settings(table: Table) -> str:
    """A sweep's table: a row per language and setting, as `lab sweep` tells it."""
    rows = pd.DataFrame(table.findings["settings"])
    shown = readable(rows, table.by)
    for column in ("best", "mean"):
        shown[column] = [f"{100 * share:.1f}%" for share in shown[column]]
    return _markdown(shown)


def values(table: Table) -> pd.DataFrame:
    """The numbers by which a sweep's settings are compared: the table of ``measures.by_seed``."""
    return by_seed(table.rows, table.by, Measure.model_validate(table.origin.arguments["compare"]))


def by_bands(table: Table) -> str:
    """A sweep's bands: the share right of sizes up to so many windows, mean over seeds with the
    95% interval."""
    parts = []
    for (name, setting), rows in values(table).groupby(["language", "setting"], sort=False):
        row = {"language": name, "setting": setting}
        for band, part in rows.groupby("band"):
            row[f"x{band}"] = with_interval(*seeds_interval(part["value"].to_numpy(), shares=True))
        flawless = rows.groupby("seed")["value"].min().eq(1).sum()
        parts.append(row | {"all right": f"{flawless} of {rows['seed'].nunique()}"})
    return _markdown(pd.DataFrame(parts))


def _so_many(right: pd.Series) -> str:
    """The number right of all, with Wilson's 95% interval of the share: 3 of 10 [11%, 60%]."""
    low, high = wilson(int(right.sum()), len(right))
    return f"{right.sum()} of {len(right)} [{100 * low:.0f}%, {100 * high:.0f}%]"


def reached(table: Table, windows: int) -> str:
    """The seeds of each setting of a sweep that are exact on all sizes tested up to so many
    windows: their number, with Wilson's 95% interval of the share."""
    lines = []
    for values_of, rows in table.rows.groupby(["language", *table.by], sort=False):
        near = rows[rows["length"] <= windows * rows["window"]]
        exact = near.groupby("seed")["exact"].min().eq(1)
        line = dict(zip(["language", *map(short, table.by)], map(str, values_of), strict=True))
        lines.append(line | {"seeds": _so_many(exact)})
    return _markdown(pd.DataFrame(lines))


def further(table: Table, name: Name) -> str:
    """One of a sweep's further measures, over seeds."""
    return _markdown(over_seeds.wide(pd.DataFrame(table.findings["measures"]), table.by)[name])


def tests(table: Table) -> str:
    """The best setting of each language of a sweep beside every other one."""
    tables = paired.versus(pd.DataFrame(table.findings["pairs"]).round(3))
    return "\n\n".join(f"{title}:\n\n{_markdown(rows)}" for title, rows in tables.items())


def grid(
    table: Table,
    down: str,
    across: str,
    value: str,
    style: str = "share",
    unit: str = "run",
) -> str:
    """Two factors of a table: the mean over units in each cell, with its 95% interval."""
    rows, columns = (list(dict.fromkeys(table.rows[factor])) for factor in (down, across))
    means = table.rows.groupby([down, across, unit])[value].mean().dropna()
    cells = {cell: part.to_numpy(dtype=float) for cell, part in means.groupby(level=[0, 1])}
    lines = []
    for row in rows:
        line: dict[str, str] = {down: str(row)}
        for column in columns:
            numbers = cells.get((row, column), ())
            line[str(column)] = (
                with_interval(*seeds_interval(numbers, shares=are_shares(style)), style)
                if len(numbers)
                else "-"
            )
        lines.append(line)
    return _markdown(pd.DataFrame(lines))


def beside(
    table: Table,
    columns: Mapping[str, Of],
    rows: Sequence[tuple[str, Of]],
    style: str = "plain",
) -> str:
    """The numbers of a table as `lab seeds` makes it, side by side, each with its interval; of its
    tests the differences, each with its p.

    Args:
        columns: the headings, each with the values that its cells have.
        rows: the headings, each with the values that its cells have. A cell has those of both;
            where both give a value, the row's. "-" says that the table has no such number.

    Raises:
        UserError: a whole row has no number, or a cell more than one.
    """
    tell, lines = table.differs if "corrected" in table.rows else table.told, []
    known = table.rows["value"].notna() if "value" in table.rows else True
    for row, of in rows:
        line = {" ": row}
        for column, about in columns.items():
            cell = {**about, **of}
            there = np.all([table.rows[name] == value for name, value in cell.items()], axis=0)
            line[column] = tell(style, **cell) if (there & known).any() else "-"
        if {*line.values()} == {row, "-"}:
            raise UserError(f"{table.name} has no {row} ({of}): correct the template")
        lines.append(line)
    return _markdown(pd.DataFrame(lines))


def medians(table: Table, down: str, across: str, number: str) -> str:
    """Two factors of a sweep, and a number that is missing where it is too large to have been seen:
    in each cell the median over all runs, and how many of them have the number."""
    rows, columns = (list(dict.fromkeys(table.rows[factor])) for factor in (down, across))
    runs, lines = table.rows.drop_duplicates("run"), []
    for row in rows:
        line: dict[str, str] = {down: str(row)}
        for column in columns:
            cell = runs[(runs[down] == row) & (runs[across] == column)][number]
            middle = float(np.median(cell.fillna(np.inf))) if len(cell) else np.inf
            text = f"{middle:g}" if np.isfinite(middle) else "-"
            line[str(column)] = (
                f"{text} ({cell.notna().sum()} of {len(cell)})" if len(cell) else "-"
            )
        lines.append(line)
    return _markdown(pd.DataFrame(lines))


def recovered(table: Table, down: str, across: str) -> str:
    """Two factors of planted rules or of automata: in each cell how many came back exactly, with
    Wilson's 95% interval of the share."""
    rows = table.rows
    exact = rows["exact"].eq(1) if "exact" in rows else rows["outcome"].eq("exact")
    came = exact.groupby([rows[down], rows[across]])
    lines = []
    for row in dict.fromkeys(table.rows[down]):
        line: dict[str, str] = {down: str(row)}
        for column in dict.fromkeys(table.rows[across]):
            line[str(column)] = _so_many(came.get_group((row, column)))
        lines.append(line)
    return _markdown(pd.DataFrame(lines))


def smallest(table: Table, across: str, value: str, least: float) -> str:
    """The fewest parameters with which every seed of a sweep has so much of a value, and with which
    most seeds have, by language; "none" where no size tried has."""
    runs = table.rows.groupby(["language", "run"], sort=False).agg(
        {across: "first", "parameters": "first", value: "mean"}
    )
    lines = []
    for language, part in runs.groupby("language", sort=False):
        for label, needed in (("every seed", 1.0), ("most seeds", 0.5)):
            line = {"language": str(language), "right in": label}
            for place, some in part.groupby(across):
                share = some.groupby("parameters")[value].apply(lambda v: (v >= least).mean())
                enough = share[(share >= needed) if needed == 1 else (share > needed)]
                line[str(place)] = f"{enough.index.min():,}" if len(enough) else "none"
            lines.append(line)
    return _markdown(pd.DataFrame(lines))


def origins(named: Sequence[Table]) -> str:
    """The origins of the figures: the last part of every page."""
    rows = [
        {
            "table": f"`{DATA}/{table.name}.parquet`",
            "command": f"`{table.origin.command}`",
            "answered": table.date,
            "commit": table.origin.commit,
            "machine": table.origin.machine,
        }
        for table in named
    ]
    return f"## Where the figures come from\n\n{_markdown(pd.DataFrame(rows))}"


def listed(rows: pd.DataFrame) -> str:
    """The list of claims: figures as ..., and a link to each page."""
    shown = rows.assign(claim=rows["claim"].str.replace("*", "...", regex=False))
    shown["page"] = [f"[{page}]({page}.md)" if page != "README" else page for page in rows["page"]]
    return _markdown(shown)


def laws(table: Table, size: Size) -> str:
    """The laws of a sweep with losses: a row per language, the power law of the loss above its
    entropy with the 95% interval of the exponent, and its AICc less that of the best rival."""
    rows = []
    for name, fits in _fitted(table, size)[1].set_index("law").groupby("language", sort=False):
        power, rivals = fits.loc["power"], fits.drop(index="power")["worse"]
        ahead = power["worse"] - rivals.min()
        rows.append(
            {
                "language": name,
                "exponent": f"{power['alpha']:.2f}{brackets(power['low'], power['high'], '.2f')}",
                "floor": f"{power['c']:.2g}",
                "nearest rival": rivals.idxmin(),
                "AICc less that of the rival": f"{ahead:+.1f}",
                "powers of ten": f"{power['decades']:.1f}",
            }
        )
    return _markdown(pd.DataFrame(rows))


@lru_cache(maxsize=1)  # a page tells the same laws in sentences and in a table
def _fitted(table: Table, size: Size) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The runs of a sweep with losses, and their laws."""
    runs = scaling.of_table(table.rows, table.by, size)
    return runs, scaling.laws(runs)


def law_sentences(table: Table, size: Size) -> str:
    """The sentences of ``lab show FOLDER scaling`` on a sweep with losses, a line per language."""
    sentences = scaling.in_words(*_fitted(table, size), size)
    return "\n".join(f"- {sentence}" for sentence in sentences)


# -- pictures -------------------------------------------------------------------------------------


def by_setting(table: Table) -> ChartType:
    """A sweep by setting, with bands if it has them."""
    if table.origin.arguments["compare"]["bands"]:
        return band_chart(values(table))
    return chart(Answer(table.rows, "", {}, table.origin.arguments))


def along(table: Table, number: str, place: str | None, by: Sequence[str] = ()) -> ChartType:
    """A number of each run by setting, or along a varied field: a panel per language.

    Args:
        number: a column; the mean where a run has several rows.
        place: the field that goes along the horizontal axis; None puts the settings there.
        by: the columns that make a setting; by default those of the sweep.
    """
    by = by or table.by
    mean = table.rows.groupby("run")[number].mean()
    rows = table.rows.drop_duplicates("run").assign(**{number: lambda t: t["run"].map(mean)})
    rows["seed"] = rows["seed"] if "seed" in rows else rows["run"]
    further = number in MEANING
    title = MEANING.get(number, "words recognised" if number == "recognition" else short(number))
    censored = further and FURTHER[name_of(number)].censored
    share = not further or is_share(number)
    return side_by_side(panels(rows, by, number, title, place, censored, share))


def recovery_picture(table: Table) -> ChartType:
    """The share of planted rules that came back exactly, by what was varied; a line per way."""
    return recovery_chart(Answer(table.rows, "", {}, table.origin.arguments))


def law_chart(table: Table, size: Size) -> ChartType:
    """The loss above the entropy by size, with its power law; below exactness."""
    return scaling.chart(scaling.of_table(table.rows, table.by, size), size)
