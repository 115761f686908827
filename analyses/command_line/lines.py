"""Commands about rules: find the one behind labelled lines or a network, and plant some to find."""

from __future__ import annotations

import pandas as pd

from analyses.charts.discovery import BY, shares
from analyses.console import OUT, progress_bar, shown, table_of
from analyses.options.lines import Discover, OfNetwork, Recover
from analyses.rules import discover as discoveries
from analyses.rules import of_network, recovery
from analyses.rules import record as records
from analyses.script import as_json, where


def rule(options: Discover | OfNetwork) -> None:
    """The rule behind labelled lines, or behind a network."""
    if isinstance(options, OfNetwork):
        _of_network(options)
    else:
        _of_lines(options)


def _of_network(options: OfNetwork) -> None:
    with progress_bar(options.name) as report:
        answer, known = of_network.rule_of_network(options, report)
    found = dict(answer.findings)
    if shown(options, answer.table, found):
        return
    note = " (kept from before; --again answers afresh)" if known else ""
    OUT.print(f"{found['headline']}{note}", style="bold")
    OUT.print(found["evidence"])
    if found["regex"]:
        OUT.print(f"As a regular expression: {found['regex']}")
    OUT.print(table_of(of_network.by_length(found)))
    about = f"words of {' '.join(found['symbols'])} between {found['begin']} and {found['end']}"
    may = "if its logit is above 0"
    if found["reads"] == "softmax":
        may = f"at a probability of {found['least']:g}"
    OUT.print(f"Asked about {about}; a token may come next {may}.")
    where(answer, of_network.NAME)


def _of_lines(options: Discover) -> None:
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
    by = BY.get(options.study, "family")
    OUT.print(table_of(shares(result.table, by)))
    OUT.print(result.sentence)
    where(result, recovery.file_name(options.study))
