"""Reports: a run as one HTML file, and pages of findings."""

from __future__ import annotations

import os
from pathlib import Path

from analyses.console import OUT, progress_bar
from analyses.options.commands import Report
from analyses.options.shared import check_replaced, marked
from analyses.reports.of_run import report as report_of
from analyses.studies.findings import pages
from analyses.studies.findings.tables import is_table, keep
from models.errors import UserError, lab
from models.foreign.export import network_files
from models.runs.files import make_folder, write_bytes
from models.runs.folders import RUN_FILE
from models.runs.run import Run

OF_RUN = ("file", "step", "network")


def report(options: Report) -> None:
    """A run's report, or the pages of findings."""
    path = options.path
    of_table = path is not None and not (path / RUN_FILE).exists() and is_table(path)
    of_run = path is not None and not of_table
    if path is not None and of_run and path.is_file():
        raise UserError(f"{path} is no run and no table: end the name of a CSV file in .csv")
    for name in (*OF_RUN, "named", "command", "question"):
        owner, fits = ("a run", of_run) if name in OF_RUN else ("a table", of_table)
        if not fits and getattr(options, name) != getattr(Report, name):
            raise UserError(f"--{name} is of the report of {owner}: leave it out")
    if path is None:
        _findings(options)
    elif of_run and options.network is not None:
        _network(Run(path, options.step), options.network)
    elif of_run:
        _of_run(Run(path, options.step), options)
    else:
        name = options.named or path.stem
        OUT.print(f"{keep(path, name, options.docs, options.command, options.question)}")


def _network(run: Run, folder: Path) -> None:
    """Writes the network of a run for other programs."""
    if os.path.lexists(folder) or not make_folder(folder, network_files(run.model())):
        raise UserError(f"{folder} is there already: name a new folder")
    OUT.print(f"{folder}: read it with from_pretrained, or `{lab('rule', model=folder)}`")


def _findings(options: Report) -> None:
    """Writes the pages of findings, or says what is stale."""
    names = pages.templates(options.docs)
    if not names:
        raise UserError(
            f"{options.docs / pages.TEMPLATES} has no templates: name the folder of pages (--docs)"
        )
    if options.check:
        if faults := pages.faults(options.docs):
            for fault in faults:
                OUT.print(fault, markup=False, soft_wrap=True)
            raise UserError(f"{len(faults)} faults in the findings")
        OUT.print(f"{len(names)} pages of findings are what their tables say")
        return
    with progress_bar("findings") as progress:
        for number, name in enumerate(names):
            progress(number, len(names), name)
            OUT.print(f"{pages.write(options.docs, name)}")


def _of_run(run: Run, options: Report) -> None:
    """Writes a run's report as one HTML file."""
    file = options.file or run.path / "report.html"
    check_replaced(file)
    with progress_bar(run.name) as progress:
        page = report_of(run, progress)
    write_bytes(file, marked(page.encode(), "html"))
    OUT.print(f"{file}")
