"""Commands about networks whose wiring is known: make one, and score lenses on many."""

from __future__ import annotations

from dataclasses import fields

import pandas as pd

from analyses.console import ERR, OUT, as_rows, progress_bar, shown, table_of
from analyses.options.plants import Plant, Score
from analyses.scoring import board, nothing, summary
from analyses.script import as_json, where
from models.languages.grammars.bounded import BOUNDED
from models.plants import plant as plants
from models.plants.record import PLAN
from models.plants.settings import Dials


def plant(options: Plant) -> None:
    """A network that computes a program, as a run with its plan beside it."""
    if not options.program:
        _programs(options)
        return
    dials = Dials(**{field.name: getattr(options, field.name) for field in fields(Dials)})
    with progress_bar(options.program) as report:
        planted = plants.plant(options.program, dials, options.seed, report)
    run = plants.write(planted, options.out / plants.run_name(planted, dials))
    plan = plants.content(planted)
    table = pd.DataFrame(plan["variables"])[["name", "kind", "made by", "reads"]]
    table["reads"] = table["reads"].map(", ".join)
    sentence = plants.in_words(planted, dials)
    if shown(options, table, plan | {"answer": sentence}):
        return
    OUT.print(table_of(table))
    OUT.print(sentence)
    OUT.print(f"  {run.path}, {run.path / PLAN}", style="dim")


def _programs(options: Plant) -> None:
    rows = [
        {"program": name, "a word is in it if it": of.rule, "symbols": " ".join(of.symbols)}
        | {"longest": of.longest}
        for name, of in BOUNDED.items()
    ]
    table = pd.DataFrame(rows)
    if not shown(options, table, {"programs": as_rows(table)}):
        OUT.print(table_of(table))


def score(options: Score) -> None:
    """Scores a lens, or all of the lab's own; or counts what questions claim of nothing."""
    if options.null:
        with progress_bar(nothing.NAME) as report:
            result = nothing.null(options, report)
        if not shown(options, result.table, as_json(result)):
            OUT.print(table_of(nothing.of_truths(pd.DataFrame(result.findings["scores"]))))
            OUT.print(result.sentence)
            where(result, nothing.NAME)
        return
    name = options.lens.name if options.lens else "the lab's lenses"
    board.checked(options)
    if options.lens:
        ERR.print(f"{options.lens} runs with all your rights: score only a file that you have read")
    with progress_bar(name) as report:
        result = board.score(options, report)
    if shown(options, result.table, as_json(result)):
        return
    scores = pd.DataFrame(result.findings["scores"])
    OUT.print(table_of(summary.compact(scores)))
    for line in (*result.findings["faults"], *result.findings["sentences"]):
        OUT.print(line)
    where(result, board.NAME)
