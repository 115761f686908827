"""Commands about many runs: seeds, sweeps, leaderboards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analyses.answers import Answer, question
from analyses.charts.leaderboard import FOUND, REPLACEMENTS
from analyses.console import ERR, OUT, progress_bar, shown, table_of
from analyses.options.commands import Seeds
from analyses.options.shared import check_replaced, marked
from analyses.options.studies import FewLabels, Leaderboard, Sweep
from analyses.questions.words.explanations import replacement_in_words
from analyses.questions.words.leaderboard import MEMBERSHIPS
from analyses.registry import usual
from analyses.script import as_json, where
from analyses.studies import between, planned
from analyses.studies import few_labels as labels
from analyses.studies import leaderboard as leaderboards
from analyses.studies import seeds as over
from analyses.studies.report import report as report_of
from analyses.studies.seeds import ask_all, by_run, chosen, means, over_groups, two_kinds
from analyses.studies.sweeps import bands, over_seeds, paired
from analyses.studies.sweeps import run as sweeps
from analyses.studies.sweeps import summary as of_sweep
from analyses.studies.sweeps.estimate import estimated
from analyses.studies.sweeps.estimate import in_words as estimate_in_words
from analyses.studies.sweeps.further import FURTHER
from analyses.studies.sweeps.measures import Measure, by_seed
from analyses.studies.sweeps.plan import plan_of
from models.errors import UserError
from models.languages import language
from models.runs.files import write_bytes

SETTINGS = 30
"""Settings of a sweep that are listed before it is trained."""

COLUMNS = 4
"""Variables that stand side by side in a terminal."""


def seeds(options: Seeds) -> None:
    """Means over all runs that differ in the seed alone."""
    names = usual() if options.name == "all" else [options.name]
    for name in names:
        question(name)
    if options.against is not None:
        _against(options, options.against, names)
        return
    runs, notes = chosen(options.path)
    refused = {}
    if options.ask:
        with progress_bar("seeds") as report:
            refused = ask_all(runs, names, options.workers, report, options.scheduler)
    table, missing = over_groups(runs, names, refused, by_run if options.by_run else means)
    if table.empty:
        raise UserError(f"nothing to show: {'; '.join(missing)}")
    for note in (*notes, *missing):  # JSON and CSV stand alone on stdout
        (ERR if options.json or options.csv else OUT).print(note, soft_wrap=True)
    tests = planned.compared_groups(runs, names)
    if shown(options, tests if options.tests else table):
        return
    if options.by_run:
        OUT.print(table_of(table))
        return
    tables, legend = over.for_reading(table, COLUMNS)
    for title, part in tables:
        OUT.print(table_of(part, title))
    OUT.print(legend)
    for (group, name), rows in tests.groupby(["group", "analysis"], sort=False):
        part, caption = planned.for_reading(rows)
        OUT.print(table_of(part, f"{group}: {name}, tested"))
        OUT.print(caption)


def _against(options: Seeds, other: Path, names: Sequence[str]) -> None:
    """The differences between two kinds of runs, each over its seeds."""
    sides = two_kinds(options.path, other)
    for runs in sides if options.ask else ():
        with progress_bar("seeds") as report:
            ask_all(runs, names, options.workers, report, options.scheduler)
    made = {name: between.between(*sides, name)[:2] for name in names}
    tables = {name: (rows, legend) for name, (rows, legend) in made.items() if len(rows)}
    if not tables:
        raise UserError(f"nothing to show: {options.path} and {other} have no answers to compare")
    if shown(options, pd.concat(rows.assign(analysis=name) for name, (rows, _) in tables.items())):
        return
    above = os.path.commonpath([options.path.parent.absolute(), other.parent.absolute()])
    titles = [os.path.relpath(path, above) for path in (options.path, other)]
    for name, (rows, legend) in tables.items():
        OUT.print(table_of(between.for_reading(rows, *titles), name))
        OUT.print(legend)


def sweep(options: Sweep | Leaderboard | FewLabels) -> None:
    """Many runs from one file, or a study with options of its own, on this machine or on many."""
    match options:
        case Leaderboard():
            _leaderboard(options)
        case FewLabels():
            _few_labels(options)
        case Sweep():
            _sweep(options)


def _sweep(options: Sweep) -> None:
    """Many runs from one file."""
    if options.dry_run:
        _estimate(options)
        return
    with progress_bar(options.file) as report:
        result = sweeps.sweep(options, report)
    if not shown(options, result.table, as_json(result)):
        _tell(result)
    if failed := result.findings["failed"]:
        raise UserError(
            f"{failed} of the runs failed twice; the table has the others: start again to try them "
            "once more"
        )


def _tell(result: Answer) -> None:
    """A sweep, for reading."""
    table, by = result.table, result.arguments["by"]
    measure = Measure.model_validate(result.arguments["compare"])
    OUT.print(result.arguments["question"])
    lost = pd.DataFrame(result.findings["diverged"])
    OUT.print(table_of(of_sweep.readable(of_sweep.summary(table, by, lost), by)))
    OUT.print(of_sweep.LEGEND)
    if measures := result.arguments["measures"]:
        for name, rows in over_seeds.wide(
            over_seeds.over_seeds(table, by, measures, lost), by
        ).items():
            OUT.print(table_of(rows, name))
            OUT.print("; ".join(f"{k}: {v}" for k, v in FURTHER[name].meaning.items()) + ".")
        OUT.print(over_seeds.LEGEND)
    if measure.bands:
        for name, values in by_seed(table, by, measure).groupby("language", sort=False):
            short = bands.wide(values)
            short.columns = short.columns.str.removeprefix(f"{name} ")
            OUT.print(table_of(short, f"{name}, share right of sizes up to ... windows"))
        OUT.print(bands.LEGEND)
    for title, rows in paired.versus(pd.DataFrame(result.findings["pairs"])).items():
        OUT.print(table_of(rows, title))
    OUT.print(result.sentence)
    for sentence in result.findings.get("capacity", []):
        OUT.print(sentence)
    for note in result.findings["left_out"]:
        OUT.print(f"left out: {note}", style="dim", markup=False)
    where(result, sweeps.NAME)


def _estimate(options: Sweep) -> None:
    """The estimated cost of a sweep."""
    plan = plan_of(options)
    with progress_bar(options.file) as report:
        table = estimated(plan, options.device, report)
    if shown(options, table):
        return
    OUT.print(plan.file.question)
    OUT.print(table_of(table.head(SETTINGS)))
    if len(table) > SETTINGS:
        OUT.print(f"... and {len(table) - SETTINGS:,} settings more: ask with --csv")
    for note in plan.skipped[:SETTINGS]:
        OUT.print(f"left out: {note}", style="dim", markup=False)
    OUT.print(estimate_in_words(table, options.workers))


def _leaderboard(options: Leaderboard) -> None:
    """Every explanation method on many models, scored against the truth."""
    page = options.out / "leaderboard.html"
    check_replaced(page)
    with progress_bar("leaderboard") as report:
        result = leaderboards.leaderboard(options, report)
    content = report_of(result, leaderboards.first_words(options)).encode()
    write_bytes(page, marked(content, "html"))
    if shown(options, result.table, as_json(result)):
        return
    OUT.print(leaderboards.QUESTION)
    kind = REPLACEMENTS[0]
    for name in options.languages:
        hidden = replacement_in_words(kind, language(name))
        for membership in MEMBERSHIPS:
            for measure in ("AUROC", "cosine to the effects", "cosine to the language", FOUND):
                table = leaderboards.wide(result.table, name, membership, kind, (measure,))
                if len(table.columns) > 1:
                    title = f"{name}, {membership}, hidden symbols {hidden}"
                    OUT.print(table_of(table, title))
    OUT.print(
        f"Means over {options.seeds} seeds [95% interval: Student's, within the range]. The "
        "cosine to the language is SHAP's own estimand. Other replacements and measures: see the "
        "report, or ask with --csv."
    )
    for claim in result.findings["claims"]:
        OUT.print(claim)
    OUT.print(f"  {page}", style="dim")


def _few_labels(options: FewLabels) -> None:
    """The labelled lines that a network needs if it has read unlabelled words before."""
    with progress_bar("few-labels") as report:
        result = labels.few_labels(options, report)
    if shown(options, result.table, as_json(result)):
        return
    OUT.print(labels.QUESTION)
    table = labels.over_seeds(result.table)
    for measure in labels.CALLED:
        for target, rows in labels.wide(table, measure).items():
            OUT.print(table_of(rows, f"{target}: {labels.CALLED[measure]}"))
    OUT.print(labels.LEGEND)
    if options.dimensions:
        sizes = labels.intrinsic(result.table, options.dimensions)
        OUT.print(table_of(sizes, "intrinsic dimension: the fewest directions that are enough"))
    OUT.print(result.sentence)
    where(result, labels.NAME)
