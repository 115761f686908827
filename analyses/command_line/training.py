"""Commands about training: train, and go on."""

from __future__ import annotations

import shutil
from pathlib import Path

from analyses.console import ERR, OUT, progress_bar
from analyses.jobs.trained import finish
from analyses.options.commands import Finetune, Resume, Train
from models.errors import UserError, lab
from models.languages import Corpus
from models.languages.files.lines import plain_lines
from models.objectives import objective
from models.plants.record import read_plan
from models.runs.files import locked
from models.runs.run import Run, run_name
from models.training.state import saved_step
from models.training.trainer import choose_device


def train(options: Train) -> None:
    """Train a language or a corpus."""
    _begin(options)


def finetune(options: Finetune) -> None:
    """Train from the weights of another run."""
    _begin(options, Run(options.start))


def _begin(options: Train, parent: Run | None = None) -> None:
    """Makes a run and trains it. Whatever must be refused is refused before a folder is made."""
    config = options.config
    choose_device(options.device)
    path = options.out / run_name(config)
    Run.check_new(path)  # whoever trains it now is not waited for
    with locked(path):
        run = _created(path, options, parent)
        if isinstance(run.language, Corpus) and run.language.told:
            OUT.print(f"{options.corpus}: {run.language.told}", markup=False, soft_wrap=True)
        try:
            _go(run, options.device)
        except (MemoryError, RuntimeError):  # of a GPU's memory it is the latter
            if not run.metrics():  # nothing was learned: it is refused, as if it were not begun
                shutil.rmtree(path)
            raise


def _created(path: Path, options: Train, parent: Run | None) -> Run:
    """The new run, whose lines are those of the columns that are given."""
    if options.corpus is None:
        return Run.create(path, options.config, None, parent)
    taught = objective(options.config.objective)
    cells = ("label", "text") if taught.verdict_alone else ("text",)
    cells = ("source", "target") if taught.of_pairs else cells
    with plain_lines(options.corpus, cells, options.columns(cells), options.letters) as lines:
        return Run.create(path, options.config, lines, parent)


def resume(options: Resume) -> None:
    """Go on with an interrupted run."""
    run = Run(options.run)
    if run.record["status"] == "finished":
        OUT.print(f"{run.path} is finished already")
        return
    if read_plan(run.path) is not None:
        raise UserError(f"{run.path} was planted, not trained: remove it, and plant it again")
    with locked(run.path):
        if any(past["step"] for past in run.metrics()) and not saved_step(run):
            ERR.print(f"{run.path} has no saved state: its training begins anew, at step 0")
        _go(run, options.device)


def _go(run: Run, device: str) -> None:
    """Trains under a progress bar and says how it ended. The caller holds the run's lock."""
    with progress_bar(run.name) as report:

        def progress(step: int, loss: float | None) -> None:
            title = run.name if loss is None else f"{run.name}  loss {loss:.4f}"
            report(step, run.config.steps, title)

        try:
            finish(run, device, progress)
        except KeyboardInterrupt:
            ERR.print(f"go on with `{lab('resume', run.path)}`")
            raise
    record = run.record
    text = f"{run.path}: {record['steps']} steps in {record['seconds']:.0f} s"
    if "selected_step" in record:
        text += f", weights of step {record['selected_step']}"
    if last := run.evaluation():  # the file of a run that was resumed may have been removed
        shares = {"exact": last["exact"], "recognition": last["recognition"]}
        told = [f"{name} {share:.1%}" for name, share in shares.items() if share is not None]
        if told:
            text += f"; training window: {', '.join(told)}"
        elif last["validation_loss"] is not None:
            text += f"; lines set aside: a loss of {last['validation_loss']:.3f} nats a symbol"
    OUT.print(text)
