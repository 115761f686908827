"""Commands about rules: find the one behind labelled lines or a network, and plant some to find."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analyses.charts.discovery import BY, by_class, shares
from analyses.console import OUT, progress_bar, shown, table_of
from analyses.options.lines import Discover, OfAutomaton, OfNetwork, Recover
from analyses.questions.rule.rule_evidence import transitions
from analyses.rules import automaton_file, of_network, recovery
from analyses.rules import discover as discoveries
from analyses.rules import record as records
from analyses.rules.lines import LONGEST
from analyses.rules.narrowing import asked
from analyses.script import as_json, where
from models.errors import UserError
from models.languages import read_lines
from models.languages.files.lines import plain_lines

SHOWN = 8
"""Rules beside the best that are printed."""
MOST_LABELS = 10
"""The most labels that each get a rule: one takes a minute or so."""


def rule(options: Discover | OfNetwork | OfAutomaton) -> None:
    """The rule behind labelled lines, behind a network, or of an automaton."""
    if isinstance(options, OfNetwork):
        _of_network(options)
    elif isinstance(options, OfAutomaton):
        _of_automaton(options)
    else:
        columns = options.columns(("label", "text"))
        with plain_lines(options.lines, ("label", "text"), columns, options.letters) as lines:
            _of_lines(replace(options, lines=lines))


def _of_network(options: OfNetwork) -> None:
    with progress_bar(options.name) as report:
        answer, kept = of_network.rule_of_network(options, report)
    facts = dict(answer.findings)
    if shown(options, answer.table, facts):
        return
    note = " (kept from before; --again answers afresh)" if kept else ""
    OUT.print(f"{facts['headline']}{note}", style="bold")
    OUT.print(facts["evidence"])
    if facts["regex"]:
        OUT.print(f"As a regular expression: {facts['regex']}")
    OUT.print(table_of(of_network.by_length(facts)))
    about = f"words of {' '.join(facts['symbols'])} between {facts['begin']} and {facts['end']}"
    may = "if its logit is above 0"
    if facts["reads"] == "softmax":
        may = f"at a probability of {facts['least']:g}"
    OUT.print(f"Asked about {about}; a token may come next {may}.")
    where(answer, of_network.NAME)


def _of_automaton(options: OfAutomaton) -> None:
    dfa, symbols = automaton_file.read_automaton(options.file)
    answer = automaton_file.rule_of_automaton(dfa, symbols)
    if shown(options, transitions(dfa, symbols), answer):
        return
    headline, *rest = automaton_file.sentences(answer)
    OUT.print(headline, style="bold")
    for sentence in rest:
        OUT.print(sentence)


def _of_lines(options: Discover) -> None:
    """The rule of each label that is asked for."""
    labels = list(dict.fromkeys(read_lines(options.lines, LONGEST).labels))
    asked_for = {"": options}
    if options.accepted is None and len(labels) > 2:
        names = {label: f"{options.name}-{label}".replace("/", "-") for label in labels}
        asked_for = {a: replace(options, accepted=a, name=name) for a, name in names.items()}
        if not len(labels) == len({o.name for o in asked_for.values()}) <= MOST_LABELS:
            raise UserError(f"{options.lines} has {len(labels)} labels: choose one with --accepted")
    made = {}
    for label, of_label in asked_for.items():
        with progress_bar(of_label.name) as report:
            made[label] = discoveries.discover(of_label, report)
    tables = [pd.DataFrame(records.table(record)) for record in made.values()]
    if len(made) > 1:
        tables = [table.assign(label=label) for label, table in zip(made, tables, strict=True)]
    facts = {label: _facts(record) for label, record in made.items()}
    if shown(options, pd.concat(tables), facts.get("", facts)):
        return
    for record in made.values():
        _print(record, options.out)


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    """The content of a record for JSON."""
    best = record["best"] or {"words": None, "class": None, "dfa": None}
    more = {key: record[key] for key in ("space", "decide", "ways")}
    about = {"headline": records.headline(record), "evidence": records.evidence(record)}
    return {**record["found"], **best, **about, **more}


def _print(record: dict[str, Any], out: Path) -> None:
    for note in record["notes"]:
        OUT.print(note)
    OUT.print(records.headline(record), style="bold")
    OUT.print(records.evidence(record))
    OUT.print(table_of(pd.DataFrame(records.table(record))))
    if record["space"]:
        OUT.print(records.question(record))
        OUT.print(table_of(pd.DataFrame(records.others(record)[:SHOWN])))
        if (rest := len(record["space"]) - SHOWN) > 0:
            OUT.print(f"  and {rest} more: see --json")
    if record["decide"]:
        OUT.print("These lines would decide: which label does each have?")
        OUT.print(table_of(pd.DataFrame(asked(record))))
    folders = [out / record["run"]] if record["run"] else []
    folders.append(out / records.FOLDER / record["name"])
    OUT.print("  " + ", ".join(map(str, folders)), style="dim")


def recover(options: Recover) -> None:
    """The share of planted rules that comes back."""
    with progress_bar(options.study) as report:
        result = recovery.recover(options, report)
    if shown(options, result.table, as_json(result)):
        return
    if options.automata:
        OUT.print(table_of(by_class(result.table)))
    else:
        OUT.print(table_of(shares(result.table, BY.get(options.study, "family"))))
    OUT.print(result.sentence)
    where(result, recovery.file_name(options.study))
