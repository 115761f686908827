"""Commands about labelled lines: find the rule behind them, and plant rules to find."""

from __future__ import annotations

import pandas as pd

from analyses.console import OUT, progress_bar, shown, table_of
from analyses.options.lines import Discover, Recover
from analyses.rules import discover as discoveries
from analyses.rules import record as records
from analyses.rules import recovery
from analyses.script import as_json, where


def discover(options: Discover) -> None:
    """From labelled lines to the rule behind them."""
    with progress_bar(options.lines.name) as report:
        record = discoveries.discover(options, report)
    table = pd.DataFrame(records.table(record))
    if shown(options, table, record["found"] | {"ways": record["ways"]}):
        return
    for note in record["notes"]:
        OUT.print(note)
    OUT.print(records.headline(record), style="bold")
    OUT.print(record["found"]["evidence"])
    OUT.print(table_of(table))
    for remark in records.remarks(record):
        OUT.print(remark)
    folders = [options.out / record["run"]] if record["run"] else []
    folders.append(options.out / records.FOLDER / record["name"])
    OUT.print("  " + ", ".join(map(str, folders)), style="dim")


def recover(options: Recover) -> None:
    """How much of a planted rule comes back?"""
    with progress_bar(options.study) as report:
        result = recovery.recover(options, report)
    if shown(options, result.table, as_json(result)):
        return
    by = recovery.BY.get(options.study, "family")
    OUT.print(table_of(recovery.shares(result.table, by)))
    OUT.print(result.sentence)
    where(result, recovery.file_name(options.study))
