"""Everything at once: a few languages trained and asked, several side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from analyses.answer_files import folders_of
from analyses.answers import Answer, Answers, answer, arguments_of, question
from analyses.console import ERR, OUT, shown, table_of, titled
from analyses.jobs.trained import trained
from analyses.jobs.workers import side_by_side
from analyses.options.commands import Demo
from analyses.options.lines import Discover
from analyses.rules.discover import discover
from analyses.rules.printed import printed_verdicts
from analyses.rules.printed import summary as printed_summary
from analyses.rules.record import evidence, headline
from models.config import TrainConfig
from models.errors import UserError, lab
from models.languages.registry import DIEREN_FILE
from models.runs.run import Run, run_name
from models.training.all_words import totals
from models.training.recipes import ABOUT, recipe_or_plain

ASKED = (*("accuracy", "probing", "heads", "patching", "circuits", "explanations", "discovery"),)
"""The demo's questions to a network: how right it is, each lens once, and its rule. The longer
questions are left to `lab analyse`."""
LEGEND = (
    "exact: all next-symbol sets are right up to this size; recognised: right verdicts in the "
    "training window; false accepts and rejects: of all words up to the length in brackets; "
    "probe: of the main hidden variable, in brackets from the untrained model; heads: how many are "
    "needed by mean ablation."
)


def demo(options: Demo) -> None:
    """Trains seed 0 of each language, asks each network ``ASKED``, and prints what came out.

    A language without a recipe of this name is trained by its plain one.

    What is finished already is kept, so an interrupted demo goes on where it stopped.
    """
    start, out = time.monotonic(), options.out
    configs = _planned(options)
    paths = {name: out / run_name(config) for name, config in configs.items()}
    jobs = {name: (paths[name], config, options.device) for name, config in configs.items()}
    with Live(
        get_renderable=lambda: _state_of(paths), console=ERR, refresh_per_second=4, transient=True
    ) as live:
        for name, seconds in side_by_side(_complete, jobs, options.workers, options.scheduler):
            live.console.print(f"{paths[name]}: trained and analysed in {seconds:.0f} s")
    runs = [Run(paths[name]) for name in sorted(paths)]
    table = pd.DataFrame([_overview(run) for run in runs])
    if shown(options, table):
        return
    OUT.print(table_of(table, "Small Transformers"))
    OUT.print(f"{_used(configs)} {_windows(configs)} {LEGEND}")
    for run in runs:
        verdicts = printed_verdicts(run)
        if verdicts is not None:
            OUT.print(printed_summary(verdicts))
        for name in ("discovery", "explanations"):
            OUT.print(titled(run.name, f" {name}: {_asked(run, name).sentence}"))
    if "dieren" in paths:
        lines = discover(Discover(DIEREN_FILE, out))
        OUT.print(titled(lines["name"], f" rule: {headline(lines)} {evidence(lines)}"))
    seconds = time.monotonic() - start
    OUT.print(f"Done in {seconds:.0f} s. Open the dashboard: {lab('dashboard', out)}")


def _planned(options: Demo) -> dict[str, TrainConfig]:
    """The training configuration of each language. Raises UserError for an unknown recipe."""
    return {name: recipe_or_plain(name, options.recipe) for name in options.languages}


def _used(configs: Mapping[str, TrainConfig]) -> str:
    """The recipe of each language, as a sentence."""
    by_recipe: dict[str, list[str]] = {}
    for name in sorted(configs):
        by_recipe.setdefault(configs[name].recipe, []).append(name)
    parts = [f"{', '.join(names)} {kind} ({ABOUT[kind]})" for kind, names in by_recipe.items()]
    return f"Recipes: {'; '.join(parts)}."


def _windows(configs: Mapping[str, TrainConfig]) -> str:
    """The sizes that each language was trained on, as a sentence."""
    by_size: dict[int, list[str]] = {}
    for name in sorted(configs):
        by_size.setdefault(configs[name].max_n, []).append(name)
    parts = [f"1 to {size} ({', '.join(names)})" for size, names in by_size.items()]
    return f"Training window: n = {', '.join(parts)}."


def _complete(path: Path, config: TrainConfig, device: str) -> float:
    """Trains the run if need be and asks the questions of the demo; returns the seconds spent."""
    start = time.monotonic()
    run = trained(path, config, device=device)
    for name in ASKED:
        answer(run, name, question(name).brief)
    return time.monotonic() - start


def _state_of(paths: dict[str, Path]) -> Table:
    """One bar a run: training first, then the questions."""
    table = Table.grid(padding=(0, 2))
    for path in paths.values():
        done, total, stage = 0.0, 1.0, "waiting"
        try:
            run = Run(path)
            steps = [line["step"] for line in run.metrics()]
            answered = [name for name in ASKED if folders_of(path, name)]
            done, total = float(steps[-1]) if steps else 0.0, float(run.config.steps)
            stage = "training"
            if run.record["status"] == "finished":
                left = [name for name in ASKED if name not in answered]
                done, total = len(answered), len(ASKED)
                stage = f"asking: {left[0]}" if left else "done"
        except UserError:
            pass  # not begun yet
        table.add_row(path.name, ProgressBar(total, done, width=30), stage)
    return table


def _asked(run: Run, name: str) -> Answer:
    """The answer to a question as the demo asks it. Raises UserError if it was removed."""
    about = question(name)
    result = Answers.of(run, name).asked(arguments_of(about.brief or about.options()))
    if result is None:
        raise UserError(f"{run.path} keeps no answer to {name}: run `lab demo` again")
    return result


def _overview(run: Run) -> dict[str, object]:
    """A run in one row."""
    findings = {
        name: _asked(run, name).findings for name in ("accuracy", "probing", "heads", "discovery")
    }
    main = findings["probing"]["main"]
    probe = findings["probing"]["best"][main]
    heads = len(findings["heads"]["needed"]), run.config.model.n_layers * run.config.model.n_heads
    discovery = findings["discovery"]
    return {
        "run": run.name,
        "exact": str(findings["accuracy"]["exact_to"] or "-"),
        "recognised": "".join(f"{last['recognition']:.1%}" for last in run.metrics()[-1:]) or "-",
        **dict(zip(("false accepts", "false rejects"), _wrong(findings["accuracy"]), strict=True)),
        "probe": f"{main} {probe['score']:.2f} ({probe['controls']['untrained']:.2f})",
        "heads": f"{heads[0]} of {heads[1]}",
        "structure": _structure(discovery),
    }


def _wrong(accuracy: Mapping[str, Any]) -> tuple[str, str]:
    """False accepts and false rejects among all short words; "-" where they are not known."""
    if (every := accuracy["all_words"]) is None:
        return "-", "-"
    sums, to = totals(every, "trained"), f"({every['longest']})"
    others, members = sums["words"] - sums["members"], sums["members"]
    accepts, rejects = sums["false_accepts"], sums["false_rejects"]
    return f"{accepts:,} of {others:,} {to}", f"{rejects:,} of {members:,} {to}"


def _structure(discovery: Mapping[str, Any]) -> str:
    """The structure behind the verdicts, in two words."""
    if discovery["status"] == "counts":
        return str(discovery["envelope"]["name"] or discovery["envelope"]["shape"])
    return f"{discovery['n_states']} states" if discovery["status"] != "none" else "none"
