"""Things to look up: runs, the answers that they keep, hooks, sizes, laws of a sweep.

What draws or needs a model is imported where it is asked for: a kept answer is read at once.
"""

from __future__ import annotations

from dataclasses import asdict

import pandas as pd

from analyses.answers import Answer, Answers, asked_with, numbers
from analyses.console import OUT, as_rows, shown, table_of, titled
from analyses.options.commands import Hooks, Runs, Show, Size
from analyses.options.shared import Shows
from analyses.options.studies import Scaling
from analyses.registry import entry, registered, usual
from analyses.reports.code import command_of
from analyses.script import as_json, where
from analyses.studies.listing import runs_of
from analyses.track_record import track_record
from models.errors import UserError, lab
from models.runs.folders import RUN_FILE
from models.runs.run import Run


def runs(options: Runs) -> None:
    """The runs of a folder."""
    if any((folder / RUN_FILE).exists() for folder in (options.folder, *options.folder.parents)):
        raise UserError(f"{options.folder} is a run, or lies in one: give the folder of all runs")
    if not options.folder.is_dir():
        raise UserError(f"{options.folder} is not a folder: train a run first: `lab train anbn`")
    table = runs_of(options.folder)
    if shown(options, table):
        return
    if table.empty:
        OUT.print(f"no run in {options.folder}: train one with `lab train anbn`")
        return
    OUT.print(table_of(table))


def show(options: Show | Size | Hooks | Scaling) -> None:
    """Print an answer that a run keeps, or what else is shown."""
    match options:
        case Size():
            _size(options)
        case Hooks():
            _hooks(options)
        case Scaling():
            _scaling(options)
        case Show():
            _show(options)


def _show(options: Show) -> None:
    """Print an answer that a run keeps."""
    run = Run(options.run)
    if options.name in (None, "all"):
        _show_all(run, options)
        return
    entry(options.name)
    answer = _newest_of(run, options.name)
    if shown(options, answer.table, as_json(answer)):
        return
    OUT.print(titled(options.name, f": {answer.sentence}"))
    OUT.print(table_of(numbers(answer.numbers)))
    if answer.model_hash != run.model_hash():
        OUT.print(_elsewhere(run, options.name, answer))
    where(answer, options.name)
    for other in Answers.of(run, options.name).current():
        if other.folder != answer.folder:
            text = asked_with(options.name, other.record.arguments)
            OUT.print(f"  asked with {text}: {other.folder}", style="dim")


def _newest_of(run: Run, name: str) -> Answer:
    """The answer that the run was asked last, about its last checkpoint if there is one.

    Raises:
        UserError: the run keeps none.
    """
    answer = Answers.of(run, name).latest()
    if answer is None:
        older = Answers.of(run, name).all()
        why = f"no answer to {name}"
        if older:
            why += f" by this version of the lab ({older[0].folder} is by another)"
        raise UserError(f"{run.path} keeps {why}: ask with `{lab('analyse', run.path, name)}`")
    return answer


def _elsewhere(run: Run, name: str, answer: Answer) -> str:
    """The sentence on an answer about other weights than the run's last."""
    renewed = command_of(run, name, answer.arguments)
    return f"The answer is about another checkpoint; `{renewed}` renews it."


def _show_all(run: Run, options: Shows) -> None:
    """Prints the sentence of each kept answer about the run's last checkpoint, and which questions
    are still to be asked."""
    asked = {name: Answers.of(run, name) for name in registered()}
    kept = {name: answer for name, about in asked.items() if (answer := about.latest())}
    answers = {name: kept[name] for name in kept if kept[name].model_hash == asked[name].model_hash}
    rows = [{"question": name, "answer": answer.sentence} for name, answer in answers.items()]
    if shown(options, pd.DataFrame(rows, columns=["question", "answer"])):
        return
    for name, answer in answers.items():
        OUT.print(titled(name, f": {answer.sentence}"))
        weighed = answer.verdict
        reasons = f"  {weighed.grade}: {weighed.why} {track_record(name)}"
        OUT.print(reasons.rstrip(), style="dim")
    for name in sorted(kept.keys() - answers):
        OUT.print(titled(name, f": {_elsewhere(run, name, kept[name])}"))
    missing = {name: bool(asked[name].all()) for name in usual() if name not in kept}
    for older, says in ((True, "answered by another version of the lab"), (False, "not asked yet")):
        if names := ", ".join(name for name, there in missing.items() if there == older):
            OUT.print(f"{says}: {names}", style="dim")


def _scaling(options: Scaling) -> None:
    """Power laws of a sweep's loss, beside rivals and exactness."""
    from analyses.rendering import draw
    from analyses.studies import scaling as laws_of

    runs = laws_of.points(options.folder, options.by)
    table = laws_of.laws(runs)
    lines, sizes = laws_of.in_words(runs, table, options.by), laws_of.means(runs)
    if options.file is not None:
        draw(laws_of.chart(runs, options.by), options.file)
    content = {"laws": as_rows(table), "sizes": as_rows(sizes), "answer": " ".join(lines)}
    if shown(options, table, content):
        return
    OUT.print(table_of(table))
    OUT.print(table_of(sizes))
    for sentence in lines:
        OUT.print(sentence)


def _size(options: Size) -> None:
    """The weights of a model of any shape, and the memory of its attention."""
    from models.sizes import in_words as total
    from models.sizes import parts_of

    parts = parts_of(options.model, options.tokens)
    text = total(parts, options.model, options.positions)
    rows = [asdict(part) for part in parts]
    if shown(options, pd.DataFrame(rows), {"parts": rows, "answer": text}):
        return
    OUT.print(table_of(pd.DataFrame(rows)))
    OUT.print(text)


def _hooks(options: Hooks) -> None:
    """The hook table of a run's model."""

    config = Run(options.run).config.model
    rows = [
        {"name": row.name, "shape": " ".join(row.shape), "meaning": row.meaning}
        for row in config.hook_rows
    ]
    table = pd.DataFrame(rows)
    if shown(options, table):
        return
    OUT.print(table_of(table))
    if not config.family.tabular:
        last, first = config.n_layers - 1, config.encoder_layers
        sides = f"{{encoder}} is 0 to {first - 1}, {{decoder}} {first} to {last}"
        OUT.print(sides if config.family.two_sided else f"{{layer}} is 0 to {last}")
