"""The command line `lab`."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.markup import escape

from analyses.answers import answer, question, registered
from analyses.charts import kernel_attention as kernel_pictures
from analyses.command_line.arguments import (
    Dashboard,
    Demo,
    Evaluate,
    Hooks,
    Languages,
    Predict,
    Resume,
    Seeds,
    Train,
)
from analyses.command_line.demo import demo as run_demo
from analyses.console import ERR, OUT, exit_status, parse, progress_bar, table_of
from analyses.jobs.trained import finish
from analyses.questions import accuracy
from analyses.questions.explanations import replacement_in_words
from analyses.questions.leaderboard import REPLACEMENTS
from analyses.rules import discover as discoveries
from analyses.rules import recovery
from analyses.rules.discover import Discover
from analyses.rules.printed import printed_verdicts
from analyses.rules.printed import summary as printed_summary
from analyses.rules.recovery import Recover
from analyses.script import ask, from_arguments
from analyses.studies import leaderboard as leaderboards
from analyses.studies.leaderboard import Leaderboard
from analyses.studies.report import report as report_of
from analyses.studies.seeds import ask_all, chosen, for_reading, over_groups
from analyses.studies.sweeps import bands, paired
from analyses.studies.sweeps import run as sweeps
from analyses.studies.sweeps import summary as of_sweep
from analyses.studies.sweeps.file import shipped
from analyses.studies.sweeps.measures import by_seed
from analyses.studies.sweeps.run import Sweep
from models.base import hook_table
from models.errors import UserError
from models.languages import LANGUAGES, FormalLanguage, LabelledCorpus, language
from models.runs.files import locked, write_bytes
from models.runs.run import Run, run_name
from models.training.evaluation import predict as predict_word
from models.training.recipes import recipe, recipes_of

USAGE = """[bold]lab[/bold]: small Transformers on languages whose truth is known, seen from inside.

  lab languages                        what can be trained
  lab train anbn                       train on a language; options: lab train --help
  lab train anbn --recipe counting     the same with heads that count built in
  lab train --corpus lines.tsv         your own lines: label <tab> words
  lab resume RUN                       go on with an interrupted run
  lab evaluate RUN                     a curve by length
  lab predict RUN "a a b b"            what may follow each symbol; in or out
  lab analyse RUN \\[NAME]              {names}, or all
  lab discover lines.tsv               from labelled lines to the rule behind them
  lab recover STUDY                    how much of a planted rule comes back?
  lab seeds PATH NAME                  all seeds of a run, or of a sweep: means with 95% intervals
  lab sweep FILE                       {sweeps}: many runs here or on a cluster
  lab leaderboard                      which explanation method tells the truth? several seeds
  lab hooks RUN                        every hook of a run's model, with its shape
  lab kernels                          kernel attention (Nadaraya-Watson) in one picture
  lab dashboard \\[RUNS]                browse it all
  lab demo                             everything above, on four languages

Each command takes --help."""


COLUMNS = 4
"""Variables that stand side by side in a terminal."""


def languages(args: Sequence[str]) -> None:
    """What can be trained, with its type in the Chomsky hierarchy, an example and a near miss."""
    import pandas as pd

    options = parse(Languages, args, "languages")
    rows = []
    for name in LANGUAGES:
        known = language(name)
        missed = known.near_miss_example() if isinstance(known, FormalLanguage) else None
        row: dict[str, str | None] = {
            "name": name,
            "type": known.chomsky,
            "symbols": " ".join(known.vocabulary.symbols),
            "example": " ".join(known.example()),
            "near miss": " ".join(missed) if missed else None,
            "recipes": " ".join(recipes_of(name)),
        }
        rows.append(row)
    if options.json:
        print(json.dumps(rows, ensure_ascii=False))
    else:
        OUT.print(table_of(pd.DataFrame(rows).drop(columns="recipes")))
        counting = [name for name in LANGUAGES if "counting" in recipes_of(name)]
        OUT.print(f"--recipe plain is the default; {' and '.join(counting)} have counting too.")


def train(args: Sequence[str]) -> None:
    """Train a language or a corpus."""
    # Language, architecture and mask decide the defaults of the other options: they are read first.
    first = parse(Train, args, "train", Train(recipe("")))
    name = first.config.language
    if first.corpus is not None:
        name = name or first.corpus.stem
    elif not name:
        raise UserError(
            f"no language given: choose one of {', '.join(LANGUAGES)}, or give --corpus FILE"
        )
    else:
        language(name)
    default = Train(recipe(name, first.config.model, first.config.recipe))
    options = parse(Train, args, "train", default)
    config = replace(options.config, language=name)
    if options.corpus is not None:
        LabelledCorpus.from_file(options.corpus)
        config = replace(config, objective="verdict")
    go(Run.create(options.out / run_name(config), config, options.corpus), options.device)


def resume(args: Sequence[str]) -> None:
    """Go on with an interrupted run."""
    options = parse(Resume, args, "resume")
    run = Run(options.run)
    if run.record["status"] == "finished":
        OUT.print(f"{run.path} is finished already")
        return
    go(run, options.device)


def go(run: Run, device: str) -> None:
    """Trains under a progress bar and says how it ended."""
    with progress_bar(run.name) as report:

        def progress(step: int, loss: float | None) -> None:
            what = run.name if loss is None else f"{run.name}  loss {loss:.4f}"
            report(step, run.config.steps, what)

        try:
            with locked(run.path):
                finish(run, device, progress)
        except KeyboardInterrupt:
            ERR.print(f"go on with `lab resume {run.path}`")
            raise
    last, record = run.metrics()[-1], run.record
    OUT.print(
        f"{run.path}: {record['steps']} steps in {record['seconds']:.0f} s; training window: "
        f"exact {last['exact']:.1%}, recognition {last['recognition']:.1%}"
    )


def evaluate(args: Sequence[str]) -> None:
    """A curve by length."""
    options = parse(Evaluate, args, "evaluate")
    run = Run(options.run)
    asked = accuracy.Options(options.max_n, options.lengths, options.count, options.seed)
    with progress_bar(run.name) as report:
        result, _ = answer(run, "accuracy", asked, report, options.again)
    printed = printed_verdicts(run)
    if options.json:
        content = accuracy.as_json(run, result)
        if printed is not None:
            content["printed_lines"] = printed.to_dict("records")
        print(json.dumps(content, ensure_ascii=False))
        return
    trained = result.table[result.table["model"] == "trained"]
    OUT.print(table_of(trained.drop(columns="model")))
    if printed is not None:
        OUT.print(table_of(printed, printed_summary(printed)))
    OUT.print(result.sentence)


def predict(args: Sequence[str]) -> None:
    """What may follow each symbol; in or out."""
    import pandas as pd

    options = parse(Predict, args, "predict")
    run = Run(options.run)
    model = run.model()
    word = run.language.vocabulary.parse(options.word)
    follow, accepted = predict_word(model, word, run.objective)
    if options.json:
        steps = [{"symbol": s, "next": n} for s, n in zip(word, follow, strict=True)]
        print(json.dumps({"accepted": accepted, "steps": steps}, ensure_ascii=False))
        return
    known = isinstance(run.language, FormalLanguage) and not run.objective.verdict_alone
    rows = []
    for index, (symbol, may) in enumerate(zip(word, follow, strict=True)):
        row = {"symbol": symbol, "may follow": " ".join(may) or "nothing"}
        if known:
            truth = run.language.next_symbols(word[: index + 1])
            row["truth"] = "right" if truth == set(may) else " ".join(sorted(truth)) or "nothing"
        rows.append(row)
    if rows:
        OUT.print(table_of(pd.DataFrame(rows)))
    OUT.print("in the language" if accepted else "not in the language")


def analyse(args: Sequence[str]) -> None:
    """Ask a run one question, or all."""
    if not args or args[0].startswith("-"):
        raise UserError(
            "write `lab analyse RUN [NAME] [OPTIONS]`; NAME is one of "
            f"{', '.join(registered())} or all"
        )
    folder, *rest = args
    name = rest.pop(0) if rest and not rest[0].startswith("-") else "all"
    if name != "all":
        from_arguments(name, [folder, *rest])
        return
    if asked := [word for word in rest if word != "--again"]:
        raise UserError(f"{asked[0]} belongs to one analysis: name it before its options")
    run = Run(Path(folder))
    for each in registered():
        try:
            ask(run, each, None, "--again" in rest)
        except UserError as error:
            OUT.print(f"[bold]{each}[/bold]: not here: {escape(str(error))}")


def discover(args: Sequence[str]) -> None:
    """From labelled lines to the rule behind them."""
    import pandas as pd

    options = parse(Discover, args, "discover")
    with progress_bar(options.lines.name) as report:
        record = discoveries.discover(options, report)
    if options.json:
        print(json.dumps(record["found"] | {"ways": record["ways"]}, ensure_ascii=False))
        return
    for note in record["notes"]:
        OUT.print(escape(note))
    OUT.print(f"[bold]{escape(discoveries.headline(record))}[/bold]")
    OUT.print(escape(record["found"]["evidence"]))
    OUT.print(table_of(pd.DataFrame(discoveries.table(record))))
    for remark in discoveries.remarks(record):
        OUT.print(escape(remark))
    folders = [options.out / record["run"]] if record["run"] else []
    folders.append(options.out / discoveries.FOLDER / record["name"])
    OUT.print("  " + ", ".join(map(str, folders)), style="dim")


def recover(args: Sequence[str]) -> None:
    """How much of a planted rule comes back?"""
    options = parse(Recover, args, "recover")
    with progress_bar(options.study) as report:
        result = recovery.recover(options, report)
    by = {"lines": "lines", "noise": "noise"}.get(options.study, "family")
    OUT.print(table_of(recovery.shares(result.table, by)))
    OUT.print(escape(result.sentence))
    kept = options.out / "results" / recovery.file_name(options.study)
    OUT.print(f"  {kept}.parquet", style="dim")


def seeds(args: Sequence[str]) -> None:
    """Means over all runs that differ in the seed alone."""
    options = parse(Seeds, args, "seeds")
    if options.workers < 1:
        raise UserError(f"--workers is {options.workers}: it must be at least 1")
    names = list(registered()) if options.name == "all" else [options.name]
    for name in names:
        question(name)
    runs, notes = chosen(options.path)
    refused = {}
    if options.ask:
        with progress_bar("seeds") as report:
            refused = ask_all(runs, names, options.workers, report)
    table, missing = over_groups(runs, names, refused)
    if table.empty:
        raise UserError(f"nothing to show: {'; '.join(missing)}")
    for note in (*notes, *missing):  # the JSON stands alone on stdout
        (ERR if options.json else OUT).print(escape(note), soft_wrap=True)
    if options.out is not None:
        write_bytes(options.out, table.to_csv(index=False).encode())
    if options.json:
        print(table.to_json(orient="records", force_ascii=False))
        return
    tables, what = for_reading(table, COLUMNS)
    for title, part in tables:
        OUT.print(table_of(part, escape(title) if title else None))
    OUT.print(escape(what))


def sweep(args: Sequence[str]) -> None:
    """Many runs from one file, on this machine or on many."""
    import pandas as pd

    options = parse(Sweep, args, "sweep")
    with progress_bar(options.file) as report:
        result = sweeps.sweep(options, report)
    table, by, measure = result.table, result.arguments["by"], sweeps.measure_of(result)
    OUT.print(escape(result.arguments["question"]))
    OUT.print(table_of(of_sweep.readable(of_sweep.summary(table, by), by)))
    OUT.print(of_sweep.LEGEND)
    if measure.bands:
        for name, values in by_seed(table, by, measure).groupby("language", sort=False):
            short = bands.wide(values)
            short.columns = short.columns.str.removeprefix(f"{name} ")
            OUT.print(table_of(short, f"{name}, share right of sizes up to ... windows"))
        OUT.print(escape(bands.LEGEND))
    for title, rows in paired.versus(pd.DataFrame(result.findings["pairs"])).items():
        OUT.print(table_of(rows, title))
    OUT.print(escape(result.sentence))
    for sentence in result.findings.get("capacity", []):
        OUT.print(escape(sentence))
    for note in result.arguments["skipped"]:
        OUT.print(f"left out: {escape(note)}", style="dim")
    OUT.print(f"  {options.folder / 'results' / sweeps.NAME}.parquet", style="dim")


def leaderboard(args: Sequence[str]) -> None:
    """Every explanation method on many models, scored against the truth."""
    options = parse(Leaderboard, args, "leaderboard")
    with progress_bar("leaderboard") as report:
        result = leaderboards.leaderboard(options, report)
    page = options.out / "leaderboard.html"
    write_bytes(page, report_of(result, leaderboards.first_words(options)).encode())
    OUT.print(leaderboards.QUESTION)
    measures = ("AUROC", "cosine to the language", "cosine to the model", "shortcut found")
    for name in options.languages:
        for kind in REPLACEMENTS:
            table = leaderboards.wide(result.table, name, kind, (*measures, "calls"))
            OUT.print(
                table_of(
                    table, f"{name}, hidden symbols {replacement_in_words(kind, language(name))}"
                )
            )
    OUT.print(f"Means over {options.seeds} seeds ± half of the 95% interval, Student's t.")
    for claim in result.findings["claims"]:
        OUT.print(escape(claim))
    OUT.print(f"  {page}", style="dim")


def hooks(args: Sequence[str]) -> None:
    """The hook table of a run's model."""
    import pandas as pd

    options = parse(Hooks, args, "hooks")
    config = Run(options.run).config.model
    rows = [
        {"name": row.name, "shape": " ".join(row.shape), "meaning": row.meaning}
        for row in hook_table(config)
    ]
    if options.json:
        print(json.dumps(rows))
        return
    OUT.print(table_of(pd.DataFrame(rows)))
    if not config.family.tabular:
        OUT.print(f"{{layer}} is 0 to {config.n_layers - 1}", markup=False)


def kernels(args: Sequence[str]) -> None:
    """Kernel attention in one picture."""
    options = parse(kernel_pictures.Options, args, "kernels")
    kernel_pictures.draw(options)
    OUT.print(f"{options.out}")


def dashboard(args: Sequence[str]) -> None:
    """Browse it all."""
    options = parse(Dashboard, args, "dashboard")
    if not options.runs.is_dir():
        raise UserError(
            f"{options.runs} is not a folder: train a run first, for example with `lab demo`"
        )
    # Found, not imported: Streamlit runs the script, and the arrows between the rooms stay one way.
    package = importlib.util.find_spec("dashboard")
    if package is None or package.origin is None:
        raise UserError("the dashboard is not installed: install the lab again with `make lab`")
    app = Path(package.origin).with_name("app.py")
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(app),
        "--server.port",
        str(options.port),
    ]
    command += [
        "--server.headless",
        str(options.headless).lower(),
        "--",
        str(options.runs.resolve()),
    ]
    OUT.print(f"dashboard: http://127.0.0.1:{options.port} (stop with Ctrl-C)")
    OUT.file.flush()
    os.execv(sys.executable, command)  # takes this process' place, so that stopping it stops all


def demo(args: Sequence[str]) -> None:
    """Everything, on four languages."""
    options = parse(Demo, args, "demo")
    run_demo(options.out, options.workers, options.recipe)


COMMANDS: dict[str, Callable[[Sequence[str]], None]] = {
    "languages": languages,
    "train": train,
    "resume": resume,
    "evaluate": evaluate,
    "predict": predict,
    "analyse": analyse,
    "discover": discover,
    "recover": recover,
    "seeds": seeds,
    "sweep": sweep,
    "leaderboard": leaderboard,
    "hooks": hooks,
    "kernels": kernels,
    "dashboard": dashboard,
    "demo": demo,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; a user's mistake is one line on stderr and exit status 2."""
    args = list(sys.argv[1:] if argv is None else argv)
    if not args or args[0] in ("-h", "--help"):
        names, sweeps_here = ", ".join(registered()), ", ".join(shipped())
        OUT.print(USAGE.format(names=names, sweeps=sweeps_here))
        return 0

    def command() -> None:
        if args[0] not in COMMANDS:
            raise UserError(f"unknown command {args[0]!r}: use one of {', '.join(COMMANDS)}")
        COMMANDS[args[0]](args[1:])

    return exit_status(command)
