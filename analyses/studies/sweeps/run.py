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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analyses.answers import Answer, Answers, Progress, quiet, save
from analyses.charts.sweeps import chart
from analyses.jobs.failed import Failed
from analyses.jobs.trained import trained, trained_together
from analyses.jobs.workers import collected
from analyses.options.shipped import find
from analyses.options.studies import Sweep
from analyses.studies.sweeps import bands, capacity, further
from analyses.studies.sweeps.exam import Exam, judged, kept
from analyses.studies.sweeps.file import SweepFile, read
from analyses.studies.sweeps.further import Name
from analyses.studies.sweeps.measures import Measure
from analyses.studies.sweeps.plan import Planned, plan
from analyses.studies.sweeps.summary import findings
from models.config import TrainConfig
from models.errors import DivergedError, UserError
from models.runs.files import making
from models.runs.run import RUN_FILE, Run
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
    path, device = find(options.file), options.device
    file, runs, skipped = planned(options)
    rows = {run.name: _known(options.folder / run.name, file.exam, file.further) for run in runs}
    todo = [run for run in runs if rows[run.name] is None]
    jobs = {
        group[0].name: (
            *(options.folder, {run.name: run.config for run in group}),
            *(file.exam, device, file.further),
        )
        for group in groups(todo, AT_ONCE if on_gpu(options) else 1)
    }
    progress(len(runs) - len(todo), len(runs), path.stem)
    failed: dict[str, str] = {}
    tried = {run.name for run in runs if rows[run.name] is not None}
    arguments: dict[str, Any] = {
        "question": file.question,
        "file": path.read_text(encoding="utf-8"),
        "by": [*(["variant"] if file.variants else []), *file.vary],
        "compare": file.measure.model_dump(),
        "measures": file.further,
    }
    arguments |= {"languages": list(file.languages), "seeds": file.seeds, "steps": options.steps}

    def interim() -> Answer:
        """The answer so far, kept."""
        judged = {name: frame for name, frame in rows.items() if frame is not None}
        lost = [run for run in runs if run.name in tried - judged.keys() - failed.keys()]
        diverged = [_about(run) for run in lost]
        left_out = [*skipped, *(f"{run.name}: its training diverged" for run in lost)]
        left_out += [f"{name} failed twice: {why}" for name, why in failed.items()]
        table = _tabulated([run for run in runs if run.name in judged], judged)
        sentence, details = findings(table, arguments["by"], file.measure, file.further, diverged)
        if left := len(runs) - len(tried):
            sentence = f"So far {len(tried):,} of {len(runs):,} runs. {sentence}"
        details |= {"left": left, "failed": len(failed), "left_out": left_out, "diverged": diverged}
        return keep(options.folder, Answer(table, sentence, details, arguments))

    grown = Paced(interim)
    # The folder is there before any worker looks for it. If none comes to work, it goes again.
    with making(options.folder):
        for name, answer in collected(complete, jobs, options.workers, options.scheduler):
            tried |= jobs[name][1].keys()
            if isinstance(answer, Failed):
                failed |= dict.fromkeys(jobs[name][1], answer.reason)
            else:
                rows |= answer
            progress(len(tried), len(runs), name)
            if len(tried) < len(runs) and any(frame is not None for frame in rows.values()):
                grown()
    if all(frame is None for frame in rows.values()):
        if failed:
            name, why = next(iter(failed.items()))
            raise UserError(f"no run of the sweep could be trained; {name}: {why}")
        raise UserError("every training of the sweep diverged: choose a smaller learning_rate")
    return interim()


def planned(options: Sweep) -> tuple[SweepFile, list[Planned], list[str]]:
    """The file as it was asked for, its runs, and what is skipped, with the reason. Raises
    UserError as ``sweep``."""
    file = read(find(options.file)).narrowed(options.languages, options.seeds, options.steps)
    runs, skipped = plan(file)
    _refuse_others(options.folder, runs)
    return file, runs, skipped


class Paced:
    """Does something now and then: every ten seconds at most, for a tenth of the time at most."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action, self._next = action, time.monotonic() + EVERY

    def __call__(self) -> None:
        began = time.monotonic()
        if began >= self._next:
            self._action()
            ended = time.monotonic()
            self._next = ended + max(EVERY, 9 * (ended - began))


def on_gpu(options: Sweep) -> bool:
    """Do the workers of a sweep have a GPU, as far as this process can know?"""
    if options.scheduler is not None:
        return options.device == "cuda"
    return choose_device(options.device).type == "cuda"


def keep(out: Path, result: Answer) -> Answer:
    """Keeps a sweep, with its capacity map and its table of bands if it has them. Raises UserError
    if the folder cannot be written."""
    capacity.save_map(out, result)
    bands.save_bands(out, result)
    return save(out, NAME, result.arguments["question"], result, chart(result))


def diverged_of(result: Answer) -> pd.DataFrame:
    """The runs of a kept sweep whose training diverged: run, language, seed, and what is varied."""
    return pd.DataFrame(result.findings["diverged"])


def measure_of(result: Answer) -> Measure:
    """The measure by which a kept sweep compares its settings."""
    return Measure.model_validate(result.arguments["compare"])


def _refuse_others(out: Path, runs: Sequence[Planned]) -> None:
    """Raises UserError where a folder holds a run of another configuration."""
    for run in runs:
        path = out / run.name
        if (path / RUN_FILE).exists() and Run(path).config != run.config:
            raise UserError(
                f"{path} holds a run of other settings: choose another folder with --out"
            )


def groups(runs: Sequence[Planned], at_once: int) -> list[list[Planned]]:
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


def complete(
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
    try:
        if len(configs) > 1:
            trained_together({out / name: config for name, config in configs.items()}, device)
        else:
            for name, config in configs.items():
                trained(out / name, config, device=device)
    except DivergedError:
        pass  # the sweep says which
    runs = [run for name in configs if (run := Run(out / name)).record["status"] == "finished"]
    return {
        run.name: _joined(judged(run, exam, device), further.measured(run, measures))
        for run in runs
    }


def _known(path: Path, exam: Exam, measures: Sequence[Name]) -> pd.DataFrame | None:
    """The rows of ``complete`` if the folder of a finished run holds all of them."""
    rows = kept(path, exam)
    numbers = None if rows is None else further.kept(measures, Run(path))
    return None if rows is None or numbers is None else _joined(rows, numbers)


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
    result = Answers(out).latest(NAME)
    if result is None:
        return None
    try:
        by = result.arguments["by"]
        numbers = further.columns_of(result.arguments["measures"])
        columns = dict.fromkeys(["run", "language", "seed", *by, *COLUMNS, *numbers])
        if missing := {"question", "file", "compare", "measures"} - result.arguments.keys():
            raise KeyError(*missing)
        if missing := {"left", "failed", "left_out", "diverged"} - result.findings.keys():
            raise KeyError(*missing)
        return replace(result, table=result.table[list(columns)])
    except (KeyError, TypeError):
        raise UserError(
            f"{result.folder} is damaged: remove it and run `lab sweep` again, which trains no "
            "finished run again"
        ) from None
