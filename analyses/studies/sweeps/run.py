"""Many runs from one file: languages, variants, sizes and seeds, trained and judged alike.

OUT is a folder of normal runs, and beside them

    OUT/results/sweep-1/    a row per run and length; what was asked, and what came out

and the map of ``capacity`` where the sizes of a Transformer vary, and the table of ``bands`` where
the file names bands of sizes.

What is finished is never trained or judged again. So a sweep that was interrupted goes on, on this
machine or on the workers of a Dask scheduler, and a file that has grown adds its new runs.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analyses.answers import Answer, Answers, Progress, quiet, save
from analyses.charts.sweeps import chart
from analyses.jobs.failed import Failed
from analyses.jobs.trained import trained, trained_together
from analyses.jobs.workers import collected
from analyses.options.studies import Sweep
from analyses.studies.sweeps import bands, capacity, further
from analyses.studies.sweeps.exam import Exam, judged, kept
from analyses.studies.sweeps.further import Name
from analyses.studies.sweeps.plan import Plan, Planned, plan_of
from analyses.studies.sweeps.summary import findings
from models.config import TrainConfig
from models.errors import DivergedError, UserError
from models.runs.files import making
from models.runs.run import Run
from models.training.together import can_train_together
from models.training.trainer import choose_device

NAME = "sweep"
EVERY = 10.0
"""Seconds, at least, between two tables of a sweep that goes on."""
AT_ONCE = 32
"""Seeds that a GPU trains at once."""
COLUMNS = (
    *("objective", "window", "length", "n", "count", "exact", "recognition", "members", "others"),
    *("parameters", "seconds", "steps"),
)


def sweep(options: Sweep, progress: Progress = quiet) -> Answer:
    """Trains and judges the runs of a sweep. One row per run and length.

    Columns: run (its folder), language, seed, variant (where the file has some), a column per
    varied field by its dotted name, and ``COLUMNS``: window is the longest training word, in
    symbols; exact is missing where the run was taught verdicts alone; members and others are the
    shares of the two that were judged right; seconds are those of training. Last come the columns
    of the further measures that the file asks for (``further.columns_of``): one number of a run,
    the same in each of its rows.

    Raises:
        UserError: something is wrong with the file, and nothing was written; the folder holds other
            runs of these names.
    """
    plan = plan_of(options)
    results = _Results(plan, _known(plan))
    jobs = _jobs(plan, results.rows, options.device, AT_ONCE if _on_gpu(options) else 1)
    now_and_then = _Paced(results.keep)
    progress(len(results.rows), len(plan.runs), plan.name)
    # The folder is there before any worker looks for it. If none comes to work, it goes again.
    with making(plan.folder):
        for name, answer in collected(_complete, jobs, options.workers, options.scheduler):
            results.add(jobs[name][1], answer)
            progress(len(results.tried), len(plan.runs), name)
            if results.rows and len(results.tried) < len(plan.runs):
                now_and_then()
    return results.keep()


class _Results:
    """The results of a sweep so far.

    Attributes:
        rows: the rows of the runs that are judged, by name.
        tried: the names of the runs that are judged, that diverged or that failed.
        failed: the reason of each run that failed, by name.
    """

    def __init__(self, plan: Plan, rows: Mapping[str, pd.DataFrame]) -> None:
        self.plan, self.rows, self.tried = plan, dict(rows), set(rows)
        self.failed: dict[str, str] = {}

    def add(self, names: Collection[str], answer: Mapping[str, pd.DataFrame] | Failed) -> None:
        """Adds the answer of a job, which trained the runs of these names."""
        self.tried |= set(names)
        if isinstance(answer, Failed):
            self.failed |= dict.fromkeys(names, answer.reason)
        else:
            self.rows |= answer

    def keep(self) -> Answer:
        """Keeps the answer so far. Raises UserError where no run is judged."""
        if not self.rows and self.failed:
            name, why = next(iter(self.failed.items()))
            raise UserError(f"no run of the sweep could be trained; {name}: {why}")
        if not self.rows:
            raise UserError("every training of the sweep diverged: choose a smaller learning_rate")
        return _keep(self.plan.folder, self._answer())

    def _answer(self) -> Answer:
        plan, file, by = self.plan, self.plan.file, self.plan.arguments["by"]
        away = self.tried - self.rows.keys() - self.failed.keys()
        lost = [run for run in plan.runs if run.name in away]
        diverged = [_about(run) for run in lost]
        left_out = [*plan.skipped, *(f"{run.name}: its training diverged" for run in lost)]
        left_out += [f"{name} failed twice: {why}" for name, why in self.failed.items()]
        table = _tabulated([run for run in plan.runs if run.name in self.rows], self.rows)
        sentence, details = findings(table, by, file.measure, file.further, diverged)
        if left := len(plan.runs) - len(self.tried):
            sentence = f"So far {len(self.tried):,} of {len(plan.runs):,} runs. {sentence}"
        ends = {"left": left, "failed": len(self.failed), "left_out": left_out}
        return Answer(table, sentence, details | ends | {"diverged": diverged}, plan.arguments)


class _Paced:
    """Does something now and then: every ten seconds at most, for a tenth of the time at most."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action, self._next = action, time.monotonic() + EVERY

    def __call__(self) -> None:
        began = time.monotonic()
        if began >= self._next:
            self._action()
            ended = time.monotonic()
            self._next = ended + max(EVERY, 9 * (ended - began))


def _on_gpu(options: Sweep) -> bool:
    """Do the workers of a sweep have a GPU, as far as this process can know?"""
    device = options.device if options.scheduler is not None else choose_device(options.device).type
    return device == "cuda"


def _keep(out: Path, result: Answer) -> Answer:
    """Keeps a sweep, with its capacity map and its table of bands if it has them. Raises UserError
    if the folder cannot be written."""
    capacity.save_map(out, result)
    bands.save_bands(out, result)
    return save(out, NAME, result.arguments["question"], result, chart(result))


def _jobs(
    plan: Plan, done: Collection[str], device: str, at_once: int
) -> dict[str, tuple[Any, ...]]:
    """The arguments of ``_complete`` for each group of runs that are not done, by its first run."""
    return {
        group[0].name: (
            *(plan.folder, {run.name: run.config for run in group}),
            *(plan.file.exam, device, plan.file.further),
        )
        for group in _groups([run for run in plan.runs if run.name not in done], at_once)
    }


def _groups(runs: Sequence[Planned], at_once: int) -> list[list[Planned]]:
    """The runs in groups that a worker trains at once: up to so many, which differ in the seed."""
    if at_once == 1:
        return [[run] for run in runs]
    alike: dict[TrainConfig, list[Planned]] = {}
    for run in runs:
        alike.setdefault(replace(run.config, seed=0), []).append(run)
    batches = []
    for config, group in alike.items():
        size = at_once if can_train_together(config) else 1
        batches += [group[first : first + size] for first in range(0, len(group), size)]
    return batches


def _complete(
    out: Path,
    configs: Mapping[str, TrainConfig],
    exam: Exam,
    device: str,
    measures: Sequence[Name] = (),
) -> dict[str, pd.DataFrame]:
    """Trains runs of a folder if need be, several at once, judges and measures them: a worker's
    job. What diverged is left out."""
    if not out.is_dir():
        raise UserError(
            f"the worker on {socket.gethostname()} does not see {out}: all workers need "
            "this folder under the same name, for example on a shared disk"
        )
    with suppress(DivergedError):  # the sweep says which
        if len(configs) > 1:
            trained_together({out / name: config for name, config in configs.items()}, device)
        else:
            [(name, config)] = configs.items()
            trained(out / name, config, device=device)
    runs = [run for name in configs if (run := Run(out / name)).record["status"] == "finished"]
    return {
        run.name: _joined(judged(run, exam, device), further.measured(run, measures))
        for run in runs
    }


def _known(plan: Plan) -> dict[str, pd.DataFrame]:
    """The rows of ``_complete`` for the finished runs whose folders hold all of them."""
    known = {}
    for run in plan.runs:
        path = plan.folder / run.name
        rows = kept(path, plan.file.exam)
        numbers = None if rows is None else further.kept(plan.file.further, Run(path))
        if rows is not None and numbers is not None:
            known[run.name] = _joined(rows, numbers)
    return known


def _joined(rows: pd.DataFrame, numbers: pd.DataFrame) -> pd.DataFrame:
    """The rows of an exam, each with the numbers of the run, which are one row."""
    return rows.assign(**numbers.iloc[0].to_dict())


def _about(run: Planned) -> dict[str, Any]:
    """The columns that describe a run; where steps vary, those that the file asks for."""
    variant = {} if run.variant is None else {"variant": run.variant}
    config = {"run": run.name, "language": run.config.language, "seed": run.config.seed}
    return config | variant | dict(run.varied)


def _tabulated(runs: Sequence[Planned], judged: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The table of ``sweep``, in the order of the runs."""
    tables = []
    for run in runs:
        about = _about(run)
        rows = judged[run.name].assign(**about)
        numbers = [column for column in rows.columns if column in further.MEANING]
        tables.append(rows[list(dict.fromkeys([*about, *COLUMNS, *numbers]))])
    return pd.concat(tables, ignore_index=True)


def load(out: Path) -> Answer | None:
    """A kept sweep, or None where there is none.

    Raises:
        UserError: a file of it is damaged.
    """
    result = Answers(out, NAME).latest()
    if result is None:
        return None
    try:
        by = result.arguments["by"]
        numbers = further.columns_of(result.arguments["measures"])
        columns = dict.fromkeys(["run", "language", "seed", *by, *COLUMNS, *numbers])
        missing = {"question", "file", "compare", "measures"} - result.arguments.keys()
        missing |= {"left", "failed", "left_out", "diverged"} - result.findings.keys()
        if missing:
            raise KeyError(*missing)
        return replace(result, table=result.table[list(columns)])
    except (KeyError, TypeError):
        raise UserError(
            f"{result.folder} is damaged: remove it and run `lab sweep` again, which trains no "
            "finished run again"
        ) from None
