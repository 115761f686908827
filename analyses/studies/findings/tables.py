"""The tables that findings are written from: kept in the repository, each with where it came from.

DOCS/findings/data/NAME.parquet    the table of a sweep, of another study, or of a command
DOCS/findings/data/NAME.json       what was asked, and when, where, and by which commit
"""

from __future__ import annotations

import csv
import io
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from analyses.answer_files import RESULTS, Record, newest, seal
from analyses.charts.sweeps import settings_of
from analyses.console import FORMULA
from interp.statistics import seeds_interval, t_interval
from models.errors import UserError, lab
from models.plain_files import read_bytes
from models.runs.files import as_json, write_bytes
from models.runs.records import read_record
from models.runs.run import git_commit

DATA = Path("findings") / "data"
MOST_BYTES = 2**22
"""The most bytes of one table; all tables of the lab stay under 20 MB."""


class _Origin(Record):
    """The origin of a kept table: an answer's record, and where it was made.

    Attributes:
        command: the command that made it.
        commit: the lab's commit when it was kept.
        machine: the kind of the machine.
    """

    command: str
    commit: str
    machine: str


@dataclass(frozen=True, eq=False)  # a table is equal to itself alone, and can be remembered
class Table:
    """A kept table, and the figures that a page may take from it."""

    name: str
    origin: _Origin
    rows: pd.DataFrame

    @property
    def question(self) -> str:
        return self.origin.question

    @property
    def findings(self) -> dict[str, Any]:
        """The numbers behind the sentence of a study."""
        return self.origin.findings

    @property
    def date(self) -> str:
        """The day it was answered."""
        return self.origin.asked_at[:10]

    @cached_property
    def by(self) -> list[str]:
        """The columns that make a setting of a sweep."""
        return list(self.origin.arguments["by"])

    def where(self, **values: Any) -> Table:
        """The rows that have these values; several may be given as a list."""
        chosen = np.ones(len(self.rows), dtype=bool)
        for column, value in values.items():
            wanted = value if isinstance(value, list) else [value]
            chosen &= self.rows[column].isin(wanted).to_numpy()
        rows = self.rows[chosen]
        if rows.empty:
            raise UserError(f"{self.name} has no rows where {values}: correct the template")
        return Table(self.name, self.origin, rows)

    def without(self, **values: Any) -> Table:
        """The rows that do not have these values."""
        rows = self.rows
        for column, value in values.items():
            rows = rows[rows[column] != value]
        return Table(self.name, self.origin, rows)

    def combined(self, name: str, *columns: str) -> Table:
        """The table with a column that tells several at once: "pre, residual true"."""
        rows = self.rows.assign(**{name: settings_of(self.rows, columns)})
        return Table(self.name, self.origin, rows)

    def inside(self) -> Table:
        """The rows of a sweep whose words are no longer than those of training."""
        rows = self.rows[self.rows["length"] <= self.rows["window"]]
        return Table(self.name, self.origin, rows)

    def beyond(self) -> Table:
        """The rows of a sweep whose words are longer than those of training."""
        return Table(self.name, self.origin, self.rows[self.rows["length"] > self.rows["window"]])

    def interval(
        self, column: str, unit: str = "run", shares: bool | None = None
    ) -> tuple[float, float, float]:
        """The mean over units of their means, with the 95% interval of ``seeds_interval``."""
        values = self.rows.groupby(unit)[column].mean().dropna()
        if values.empty:
            raise UserError(f"{self.name} has no {column} there: correct the template")
        return seeds_interval(values.to_numpy(dtype=float), shares=shares)

    def mean(self, column: str, style: str = "share", unit: str = "run") -> str:
        """The mean with its interval, as a page says it: 86% [84, 88]."""
        return with_interval(*self.interval(column, unit, are_shares(style)), style)

    def same(self, column: str, style: str = "share", unit: str = "run") -> str:
        """A number that all units share, as a baseline on the same words does: without an interval.
        Raises UserError where they differ."""
        mean, low, high = self.interval(column, unit)
        if high - low > 1e-9:
            raise UserError(f"{column} of {self.name} differs by {unit}: correct the template")
        return with_interval(mean, float("nan"), float("nan"), style)

    def ahead(self, other: Table, column: str, style: str = "share", unit: str = "seed") -> str:
        """The means of these rows less those of others, seed by seed or unit by unit: 12 points
        [3, 21]. Student's 95% interval, for shares within their range; none where all differences
        are alike. Raises UserError where the units are not the same ones."""
        here, there = (_by_unit(table.rows, column, unit) for table in (self, other))
        if here.empty or not here.index.equals(there.index):
            raise UserError(f"{self.name} has another {unit} for {column}: correct the template")
        mean, low, high = t_interval((here - there).to_numpy(dtype=float))
        if high - low < 1e-9:
            low = high = float("nan")
        if are_shares(style):
            low, high = max(low, -1.0), min(high, 1.0)
        return with_interval(mean, low, high, style).replace("%", " points")

    def less(
        self,
        column: str,
        first: Mapping[str, Any],
        second: Mapping[str, Any],
        style: str = "plain",
        unit: str = "run",
    ) -> str:
        """``ahead`` of the rows of the first values against those of the second. Raises UserError
        as ``where``."""
        return self.where(**first).ahead(self.where(**second), column, style, unit)

    def told(self, style: str = "plain", **values: Any) -> str:
        """The mean of the number that has these values, with its interval, in a table over seeds as
        `lab seeds` makes it, with or without --by-run. Raises UserError where there is none, or
        more than one."""
        if "mean" in self.rows:
            row = self.one(**values)
            return with_interval(row["mean"], row["low"], row["high"], style)
        chosen = self.where(**values)
        if chosen.rows["run"].duplicated().any():
            raise UserError(f"{self.name} has several rows of a run where {values}: say which")
        return chosen.mean("value", style)

    def differs(self, style: str = "plain", **values: Any) -> str:
        """The first less the second, with its interval and its corrected p, in a table of tests as
        `lab seeds --tests` makes it. Raises UserError as ``told``."""
        row = self.one(**values)
        ends = with_interval(row["difference"], row["low"], row["high"], style)
        return f"{ends}, p = {row['corrected']:.2g}"

    def p(self, **values: Any) -> str:
        """The corrected p of a row of a table of tests. Raises UserError as ``told``."""
        return f"{self.one(**values)['corrected']:.2g}"

    def one(self, **values: Any) -> pd.Series:
        """The only row that has these values. Raises UserError where there is none, or more."""
        rows = self.where(**values).rows
        if len(rows) > 1:
            raise UserError(f"{self.name} has {len(rows)} rows where {values}: say which")
        return rows.iloc[0]

    def count(self, column: str) -> int:
        """The number of different values in a column."""
        return int(self.rows[column].nunique())


def _by_unit(rows: pd.DataFrame, column: str, unit: str) -> pd.Series:
    """The mean of a column by unit; where no column has the seed, it ends the name of the run."""
    units = rows[unit] if unit in rows else rows["run"].str.extract(r"-s(\d+)$")[0]
    return rows.groupby(units)[column].mean().dropna()


STYLES: dict[str, Callable[[float], str]] = {
    "share": lambda value: f"{round(100 * value)}",
    "points": lambda value: f"{round(100 * value, 1) + 0.0:.1f}",
    "plain": lambda value: f"{round(value, 2) + 0.0:.2f}",
    "fine": lambda value: f"{round(value, 3) + 0.0:.3f}",
    "tenths": lambda value: f"{value:,.1f}",
    "whole": lambda value: f"{value:,.0f}",
    "short": lambda value: f"{value:.2g}",
}
"""The styles in which a number is written. Nothing is minus zero."""


def are_shares(style: str) -> bool | None:
    """True for the styles of shares; None for others, which may be shares or not."""
    return style in ("share", "points") or None


def with_interval(mean: float, low: float, high: float, style: str = "share") -> str:
    """A mean and its 95% interval. Of a single unit there is none."""
    say, sign = STYLES[style], "%" if are_shares(style) else ""
    # Three numbers that differ by rounding errors alone are written alike.
    mean, low, high = (round(number, 9) for number in (mean, low, high))
    ends = "" if np.isnan(low) else f" [{say(low)}, {say(high)}]"
    return f"{say(mean)}{sign}{ends}"


def is_table(path: Path) -> bool:
    """Is this a study's folder, or a file with a table?"""
    return path.suffix.lower() == ".csv" or (path / RESULTS).is_dir()


# -- keeping --------------------------------------------------------------------------------------


def keep(source: Path, name: str, docs: Path, command: str = "", question: str = "") -> Path:
    """Keeps the table of a study's folder, or a CSV file, among the findings.

    Args:
        source: the folder of a sweep or of another study, or what a command printed with --csv.
        command: the command that made it; a sweep knows its own.
        question: the question that a CSV file answers.

    Raises:
        UserError: there is no study, or it is not finished; a CSV without command or question; a
            table that is too large.
    """
    if source.is_dir():
        record, rows = _study(source)
        command = command or lab(record.analysis, source.name)
    else:
        if not (command and question):
            raise UserError(f"{source} does not say what made it: give --command and --question")
        rows = _printed(source)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = Record(
            analysis=name,
            question=question,
            sentence="",
            arguments={},
            model_hash="",
            findings={},
            code="",
            asked_at=now,
        )
    buffer = io.BytesIO()
    rows.to_parquet(buffer, index=False, compression="zstd")
    if len(buffer.getvalue()) > MOST_BYTES:
        raise UserError(
            f"the table has {len(buffer.getvalue()):,} bytes, more than {MOST_BYTES:,}: keep a "
            "smaller one"
        )
    fields = record.model_dump() | {"sha256": seal(buffer.getvalue(), record)}
    origin = _Origin(
        **fields, command=command, commit=(git_commit() or "unknown")[:8], machine=_machine()
    )
    file = docs / DATA / f"{name}.parquet"
    about = file.with_suffix(".json")
    if file.exists() or about.exists() or about.is_symlink():
        try:
            load(docs, name)
        except UserError:
            strange = file if file.exists() and not about.exists() else about
            raise UserError(
                f"{strange} is not of the lab: choose another name with --named"
            ) from None
    write_bytes(file, buffer.getvalue())
    write_bytes(about, as_json(origin.model_dump()))
    return file


def _printed(source: Path) -> pd.DataFrame:
    """The table of a CSV file. Raises UserError for one that no command printed."""
    raw = read_bytes(source, "check the path", 10 * MOST_BYTES)
    try:
        text = raw.decode("utf-8-sig")
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
        header = lines[0]
        rows = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])
        texts = pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""], dtype=str)
        for column in texts:
            if texts[column].str.match(r"[+-]?0\d").any():  # 007 is a name, and no number
                rows[column] = texts[column]
    except (ValueError, IndexError, OverflowError, csv.Error) as error:
        why = {UnicodeDecodeError: "is not UTF-8", IndexError: "is empty"}
        raise UserError(
            f"{source} {why.get(type(error), 'is no CSV')}: give what --csv printed"
        ) from None
    fault = ""
    if any(len(line) != len(header) for line in lines):
        fault = "has lines that are longer than its header, or shorter"
    elif len({*header, ""}) <= len(header):
        fault = "has a column without a name, or two of one name"
    elif len(header) == 1 and re.search("[;\t]", header[0]):
        fault = "has no comma between its columns"
    if fault:
        raise UserError(f"{source} {fault}: give what --csv printed")
    return rows.replace(rf"^'(?={FORMULA.pattern})", "", regex=True)


def _study(folder: Path) -> tuple[Record, pd.DataFrame]:
    """The last study that a folder keeps. Raises UserError if it keeps none, or a part of one."""
    names = {path.name.rpartition("-")[0] for path in (folder / RESULTS).glob("*-*")}
    answers = [answer for name in names if (answer := newest(folder, name, lambda record: True))]
    if not answers:
        raise UserError(f"{folder} keeps no study: give the folder of a sweep, or a CSV file")
    last, content = max(answers, key=lambda answer: answer[0].record.asked_at)
    if left := last.record.findings.get("left"):
        raise UserError(f"{left} runs of {folder} are missing: finish it with `lab sweep`")
    return last.record, pd.read_parquet(io.BytesIO(content))


def _machine() -> str:
    """The kind of this machine, without its name."""
    kinds = {"x86_64": "x86-64", "aarch64": "ARM"}
    return (
        f"{platform.system()}, {kinds.get(platform.machine(), platform.machine())}, "
        f"{os.cpu_count()} cores, Python {sys.version_info.major}.{sys.version_info.minor}, "
        f"torch {torch.__version__.partition('+')[0]}"
    )


def load(docs: Path, name: str) -> Table:
    """A kept table.

    Raises:
        UserError: there is none of this name, or it was changed.
    """
    file = docs / DATA / f"{name}.parquet"
    cure = f"restore it, or keep the table again: `{lab('report', 'FOLDER', named=name)}`"
    raw = read_bytes(file, cure, MOST_BYTES)
    origin = read_record(file.with_suffix(".json"), _Origin, cure)
    if seal(raw, origin) != origin.sha256:
        raise UserError(f"{file} is not the table that was kept: {cure}")
    return Table(name, origin, pd.read_parquet(io.BytesIO(raw)))
