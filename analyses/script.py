"""Runs any question as a script: `python -m analyses.script patching RUN [OPTIONS]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from analyses.answers import Answer, Question, answer, question
from analyses.console import OUT, exit_status, parse_asked, progress_bar, shown, table_of, titled
from analyses.options.shared import Asks
from analyses.track_record import track_record
from models.runs.run import Run


def script(analysis: Question[Any]) -> int:
    """The same as `lab analyse RUN NAME [OPTIONS]`, for the module of a question in another
    package. Returns the exit status."""
    return exit_status(lambda: _from_arguments(analysis.name, sys.argv[1:] or ["--help"]))


def _from_arguments(name: str, args: Sequence[str]) -> None:
    """Asks the run that the arguments name.

    Args:
        args: the run's folder, the question's options, and those of ``Asks``.
    """
    folder = args[0]
    rest = args if folder in ("-h", "--help") else args[1:]
    options, how = parse_asked(question(name).options, rest, f"analyse {folder} {name}")
    ask(Run(Path(folder), how.step), name, options, how)


def ask(run: Run, name: str, options: Any, how: Asks) -> None:
    """Answers one question and says where the table and the figure lie."""
    result, kept = answered(run, name, options, how)
    content = as_json(result) | {"track_record": track_record(name)}
    if shown(how, result.table, content):
        return
    note = " (kept from before; --again answers afresh)" if kept else ""
    for title, table in question(name).shown(result).items():
        OUT.print(table_of(table, title or None))
    OUT.print(titled(name, f": {result.sentence}{note}"))
    where(result, name)


def answered(run: Run, name: str, options: Any, how: Asks) -> tuple[Answer, bool]:
    """``analyses.answers.answer`` under a progress bar."""
    with progress_bar(name) as report:
        return answer(run, name, options, report, how.again)


def where(result: Answer, name: str) -> None:
    """Says where the table of a kept answer lies, and its figure if it has one."""
    if result.folder is not None:
        files = (result.folder / f"{name}.{ending}" for ending in ("parquet", "html"))
        there = ", ".join(str(file) for file in files if file.exists())
        OUT.print(f"  {there}", style="dim")


def as_json(result: Answer) -> dict[str, Any]:
    """An answer as JSON: sentence, grade, claims, what the network knows of its language, findings,
    arguments, model_hash, table (a list of rows)."""
    rows = json.loads(result.table.to_json(orient="records", force_ascii=False))
    fields = {k: getattr(result, k) for k in ("sentence", "findings", "arguments", "model_hash")}
    claims = [asdict(claim) | {"grade": claim.grade} for claim in result.claims]
    knowledge = result.knowledge and asdict(result.knowledge)
    about = {"grade": result.verdict.grade, "claims": claims, "knowledge": knowledge}
    return {**fields, **about, "table": rows}


if __name__ == "__main__":
    named, *words = sys.argv[1:] or [""]
    raise SystemExit(exit_status(lambda: _from_arguments(named, words or ["--help"])))
