"""A run as one HTML file: what was learned, and each kept answer with its grade and its picture.

It needs no other file and no script, so it opens offline, can be sent, and is printed as it is.
Its looks are in ``run.html.jinja``, beside this file. The template trusts the pictures, which
altair escapes, and the tables, whose cells pandas escapes. It escapes everything else itself.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from analyses.answer_files import Kept
from analyses.answers import Answers, Progress, asked_with, question, quiet
from analyses.registry import registered
from analyses.rendering import render
from analyses.reports.code import command_of
from analyses.track_record import track_record
from models.runs.run import Run

MOST = 50
"""The most rows of a table that are shown; the run's folder has all."""


def report(run: Run, progress: Progress = quiet) -> str:
    """The page, about the checkpoint looked at.

    Raises:
        UserError: the run has no checkpoint, or an answer of it is damaged.
    """
    current = {name: Answers.of(run, name).current() for name in registered()}
    pairs = [(name, answer) for name, group in current.items() for answer in group]
    answers = []
    for number, (name, answer) in enumerate(pairs):
        progress(number, len(pairs), name)
        answers.append(_answer(run, name, answer))
    progress(len(pairs), len(pairs), "report")
    pages = Environment(
        loader=PackageLoader("analyses.reports", ""), autoescape=True, undefined=StrictUndefined
    )
    return pages.get_template("run.html.jinja").render(
        run=run.name,
        step=run.step,
        language=run.language.name,
        chomsky=run.language.chomsky,
        example=" ".join(run.language.example()),
        taught=run.objective.taught,
        facts=_facts(run),
        answers=[answer for answer in answers if answer],
        missing={name: command_of(run, name, {}) for name, group in current.items() if not group},
    )


def _facts(run: Run) -> dict[str, Any]:
    """The facts of a run: its model, its training and the versions."""
    config, record = run.config, run.record
    model = config.model
    return {
        "architecture": model.architecture,
        "layers": model.n_layers,
        "width": model.d_model,
        "recipe": config.recipe,
        "training window": run.window,
        "steps": config.steps,
        "seed": config.seed,
        "status": record["status"],
        "weights (SHA-256)": run.model_hash()[:16],
        "lab": version("structure-lab"),
        "commit": record.get("git_commit") or "not known",
    }


def _answer(run: Run, name: str, kept: Kept) -> dict[str, Any] | None:
    """One kept answer; None if it was renewed just now."""
    answer = Answers.of(run, name).asked(kept.record.arguments)
    if answer is None:
        return None
    weighed = answer.verdict
    picture = render(question(name).chart(answer), "svg").decode()  # not a file that anybody wrote
    rows = answer.table.head(MOST)
    return {
        "name": name,
        "asks": question(name).asks,
        "short": weighed.short,
        "grade": weighed.grade,
        "why": weighed.why,
        "record": track_record(name),
        "sentence": answer.sentence,
        "asked_with": asked_with(name, answer.arguments),
        "asked_at": kept.record.asked_at,
        "command": command_of(run, name, answer.arguments),
        "picture": picture[picture.index("<svg") :],
        "rows": len(answer.table),
        "table": rows.to_html(index=False, border=0, float_format="{:.4g}".format),
    }
