"""What an analysis leaves behind: a tidy table, what made it, and a figure.

results/probing.parquet     the table
results/probing.json        question, arguments, model hash, findings, versions
figures/probing.{svg,html}  the chart; the page holds all it needs, so it opens offline
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import pandas as pd
from altair.typing import ChartType
from pyarrow import ArrowException

from models.errors import UserError
from models.runs.files import read_json, write_bytes, write_json
from models.runs.run import PACKAGES, Run, installed_versions

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what is being done)."""


def quiet(done: int, total: int, what: str) -> None:
    """The progress that nobody watches."""


@dataclass(frozen=True)
class Result:
    """An answer.

    Attributes:
        table: a row is an observation; the analysis documents the columns.
        findings: the headline, as JSON-able values; "summary" is one sentence.
        arguments: what was asked.
        model_hash: SHA-256 of the weights that were looked at.
    """

    table: pd.DataFrame
    findings: Mapping[str, Any]
    arguments: Mapping[str, Any]
    model_hash: str


class Analysis(Protocol):
    """What every module of an analysis offers."""

    QUESTION: str
    Options: type[Any]

    @staticmethod
    def analyse(run: Run, options: Any, progress: Progress = ...) -> Result: ...

    @staticmethod
    def headline(result: Result) -> pd.DataFrame: ...

    @staticmethod
    def chart(result: Result) -> ChartType: ...


def numbers(rows: Iterable[tuple[str, str, float | None]]) -> pd.DataFrame:
    """What every ``headline`` returns, the numbers that are compared over seeds.

    Returns:
        One row per number: variable and of, which name it, and value; NaN where it is not defined.
    """
    table = pd.DataFrame(list(rows), columns=["variable", "of", "value"])
    return table.astype({"value": float})


NAMES = (
    "accuracy",
    "probing",
    "emergence",
    "interventions",
    "heads",
    "patching",
    "circuits",
    "explanations",
    "leaderboard",
    "discovery",
)


def analysis(name: str) -> ModuleType:
    """The module of an analysis, imported when asked for. Raises UserError for an unknown name."""
    if name not in NAMES:
        raise UserError(f"unknown analysis {name!r}: choose one of {', '.join(NAMES)} or all")
    return import_module(f"analyses.questions.{name}")


def answer(
    run: Run, name: str, options: Any = None, progress: Progress = quiet, again: bool = False
) -> tuple[Result, bool]:
    """The result of an analysis, from the run folder where the same question was answered before.

    Args:
        options: the analysis' own Options; None takes the defaults.
        again: answer afresh in any case.

    Returns:
        The result, and True if it was kept from an earlier time.
    """
    module = analysis(name)
    options = module.Options() if options is None else options
    if not again and (known := kept(run, name, options)):
        return known, True
    start = time.monotonic()
    result = module.analyse(run, options, progress)
    save(run, name, module, result, time.monotonic() - start)
    return result, False


def kept(run: Run, name: str, options: Any = None) -> Result | None:
    """The kept answer to this very question about the last checkpoint; None where there is none.

    Args:
        options: as of ``answer``.
    """
    found = load(run, name)
    if found is None or found.model_hash != run.model_hash():
        return None
    options = analysis(name).Options() if options is None else options
    return found if found.arguments == plain(asdict(options)) else None


def save(run: Run, name: str, module: ModuleType, result: Result, seconds: float) -> None:
    """Writes table, record and figures. Raises UserError if the folder cannot be written."""
    buffer = io.BytesIO()
    result.table.to_parquet(buffer, index=False)
    write_bytes(run.results / f"{name}.parquet", buffer.getvalue())
    figure: ChartType = module.chart(result)
    for suffix in ("svg", "html"):
        write_bytes(run.figures / f"{name}.{suffix}", render(figure, suffix))
    record = {
        "analysis": name,
        "question": module.QUESTION,
        "arguments": dict(result.arguments),
        "model_hash": result.model_hash,
        "findings": dict(result.findings),
        "seconds": round(seconds, 2),
        "versions": installed_versions((*PACKAGES, "scikit-learn", "shap", "lime", "aalpy")),
    }
    write_json(run.results / f"{name}.json", record)


def render(figure: ChartType, suffix: str) -> bytes:
    """A chart as "svg", "png" or self-contained "html", without a browser."""
    if suffix == "png":
        raw = io.BytesIO()
        figure.save(raw, format="png", ppi=144)
        return raw.getvalue()
    text = io.StringIO()
    if suffix == "html":
        figure.save(text, format="html", inline=True)
    else:
        figure.save(text, format="svg")
    return text.getvalue().encode()


def load(run: Run, name: str) -> Result | None:
    """The kept result, or None. Raises UserError for a damaged one."""
    table, record = run.results / f"{name}.parquet", run.results / f"{name}.json"
    if not (table.exists() and record.exists()):
        return None
    content = read_json(record)
    try:
        return Result(
            pd.read_parquet(table), content["findings"], content["arguments"], content["model_hash"]
        )
    except (ArrowException, OSError, KeyError):
        raise UserError(
            f"{table} is damaged: remove it and run `lab analyse {run.path} {name}`"
        ) from None


def plain(value: Any) -> Any:
    """A value as JSON knows it (numpy's numbers and tuples become Python's)."""
    return json.loads(json.dumps(value, default=lambda v: v.item()))
