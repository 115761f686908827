"""Commands about what is there already: the runs of a folder, and the answers that a run keeps."""

from __future__ import annotations

import pandas as pd

from analyses.answer_files import kept_in
from analyses.answers import Answer, asked_with, current, latest, question
from analyses.console import OUT, progress_bar, shown, table_of, titled
from analyses.options.commands import Report, Runs, Show
from analyses.options.dictionaries import NAME as DICTIONARIES
from analyses.options.influence import NAME as INFLUENCE
from analyses.options.shared import Shows
from analyses.registry import entry, known
from analyses.reports.code import command_of
from analyses.reports.of_run import report as report_of
from analyses.scorecard import verdict
from analyses.script import as_json, where
from analyses.studies.findings import pages
from analyses.studies.findings.tables import is_table, keep
from analyses.studies.listing import runs_of
from models.errors import UserError, lab
from models.runs.files import write_bytes
from models.runs.run import RUN_FILE, Run


def runs(options: Runs) -> None:
    """The runs of a folder."""
    if not options.folder.is_dir():
        raise UserError(f"{options.folder} is not a folder: train a run first: `lab train anbn`")
    table = runs_of(options.folder)
    if shown(options, table):
        return
    if table.empty:
        OUT.print(f"no run in {options.folder}: train one with `lab train anbn`")
        return
    OUT.print(table_of(table))


def show(options: Show) -> None:
    """Print an answer that a run keeps."""
    run = Run(options.run)
    if options.name in (None, "all"):
        show_all(run, options)
        return
    entry(options.name)
    found = newest_of(run, options.name)
    if shown(options, found.table, as_json(found)):
        return
    OUT.print(titled(options.name, f": {found.sentence}"))
    OUT.print(table_of(question(options.name).headline(found)))
    if found.model_hash != run.model_hash():
        renewed = command_of(run, options.name, found.arguments)
        OUT.print(f"The answer is about another checkpoint; `{renewed}` renews it.")
    where(found, options.name)
    for other in current(run, options.name):
        if other.folder != found.folder:
            asked = asked_with(options.name, other.record.arguments)
            OUT.print(f"  asked with {asked}: {other.folder}", style="dim")


def report(options: Report) -> None:
    """A run's report, or the pages of findings."""
    if options.path is None:
        _findings(options)
    elif (options.path / RUN_FILE).exists() or not is_table(options.path):
        _of_run(Run(options.path, options.step), options)
    else:
        name = options.named or options.path.stem
        OUT.print(f"{keep(options.path, name, options.docs, options.command, options.question)}")


def _findings(options: Report) -> None:
    """Writes the pages of findings, or says what is stale."""
    names = pages.templates(options.docs)
    if options.check:
        if found := pages.faults(options.docs):
            for fault in found:
                OUT.print(fault, markup=False, soft_wrap=True)
            raise UserError(f"{len(found)} faults in the findings")
        OUT.print(f"{len(names)} pages of findings are what their tables say")
        return
    if not names:
        raise UserError(
            f"{options.docs / pages.TEMPLATES} has no templates: name the folder of pages (--docs)"
        )
    with progress_bar("findings") as told:
        for done, name in enumerate(names):
            told(done, len(names), name)
            OUT.print(f"{pages.write(options.docs, name)}")


def _of_run(run: Run, options: Report) -> None:
    """Writes a run's report as one HTML file."""
    file = options.file or run.path / "report.html"
    with progress_bar(run.name) as told:
        page = report_of(run, told)
    write_bytes(file, page.encode())
    OUT.print(f"{file}")


def newest_of(run: Run, name: str) -> Answer:
    """The answer that the run was asked last, about its last checkpoint if there is one.

    Raises:
        UserError: it keeps none.
    """
    found = latest(run, name)
    if found is None:
        older = kept_in(run.path, name)
        why = f"no answer to {name}"
        if older:
            why += f" by this version of the lab ({older[0].folder} is by another)"
        raise UserError(f"{run.path} keeps {why}: ask with `{lab('analyse', run.path, name)}`")
    return found


BY_COMMAND = (DICTIONARIES, INFLUENCE)
"""Answers that a command of their own keeps: what they say is of one site, or of many trainings."""


def show_all(run: Run, how: Shows) -> None:
    """Prints the sentence of each kept answer, and which questions are still to be asked."""
    names = [*known(), *BY_COMMAND]
    kept = {name: found for name in names if (found := latest(run, name))}
    rows = [{"question": name, "answer": found.sentence} for name, found in kept.items()]
    if shown(how, pd.DataFrame(rows, columns=["question", "answer"])):
        return
    for name, found in kept.items():
        OUT.print(titled(name, f": {found.sentence}"))
        if name in BY_COMMAND:
            OUT.print(f"  kept in {found.folder}", style="dim")
            continue
        weighed = verdict(name, found)
        OUT.print(f"  {weighed.grade}: {weighed.why}", style="dim")
    left = ", ".join(name for name in known() if name not in kept)
    if left:
        OUT.print(f"not asked yet: {left}", style="dim")
