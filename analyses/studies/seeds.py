"""The same question over all runs that differ in the seed alone, since one seed is an anecdote.

A folder of runs, as a sweep leaves it, is read as groups. A group is the runs of one configuration.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from analyses.answer_files import Kept
from analyses.answers import (
    Answers,
    Progress,
    answer,
    arguments_of,
    numbers,
    question,
    quiet,
)
from analyses.jobs.workers import side_by_side
from interp.statistics import seeds_interval, wilson
from models.config import TrainConfig
from models.errors import UserError
from models.runs.folders import RUN_FILE, find_runs
from models.runs.run import Run

ASKED_OTHERWISE = "the options differ from those of most seeds"
RENEWED = "asked again just now"
EARLIER = "asked about an earlier checkpoint"
OTHER_VERSION = "answered by another version of the lab"
UNASKED = "not asked"
UNFINISHED = "not finished"
DIVERGED = "its training diverged"

_Settings = dict[str, Any]


# -- which runs belong together -------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """The runs of one configuration.

    Attributes:
        fields: the settings that set it apart from the other groups, the language first.
        runs: its runs, ascending by seed.
    """

    fields: Mapping[str, Any]
    runs: Sequence[Run]

    @property
    def label(self) -> str:
        """The fields for reading: "anbncn, n_layers 1"."""
        language, *others = self.fields.items()
        return ", ".join([str(language[1]), *(f"{name} {value}" for name, value in others)])


def _settings(run: Run) -> _Settings:
    """The configuration without the seed, in one level; for a corpus with a hash of its lines."""
    lines = run.corpus_bytes()
    corpus = None if lines is None else hashlib.sha256(lines).hexdigest()[:8]
    return {**_values(run.config), "corpus": corpus}


@lru_cache(2048)
def _values(config: TrainConfig) -> Mapping[str, Any]:
    """The configuration without the seed, in one level."""
    parts = (config, config.model, config.model.counting)
    values = {f.name: getattr(part, f.name) for part in parts for f in fields(part)}
    for name in ("seed", "model", "counting"):
        del values[name]
    return MappingProxyType(values)


def siblings(run: Run) -> list[Run]:
    """This run and those beside it that have the same configuration, apart from the seed."""
    return [other for other, _ in _alike(run, _opened(run.path.parent)[0])]


def _alike(run: Run, opened: Iterable[tuple[Run, _Settings]]) -> list[tuple[Run, _Settings]]:
    """The opened runs that have the configuration of this one, apart from the seed."""
    settings = _settings(run)
    same = [pair for pair in opened if pair[1] == settings]
    return sorted(same, key=lambda pair: pair[0].config.seed)


def _opened(folder: Path) -> tuple[list[tuple[Run, _Settings]], dict[str, list[str]]]:
    """The runs of a folder, with their settings; and by reason the names of those that cannot be
    opened: one damaged or foreign run does not stop the others."""
    opened, damaged = list[tuple[Run, _Settings]](), dict[str, list[str]]()
    for path in find_runs(folder):
        try:
            run = Run(path)
            opened.append((run, _settings(run)))
        except UserError as error:
            damaged.setdefault(str(error), []).append(path.name)
    return opened, damaged


def groups(runs: Sequence[Run]) -> list[_Group]:
    """The runs by configuration, ordered by the settings that tell the groups apart."""
    together: dict[tuple[tuple[str, Any], ...], list[Run]] = {}
    for run in runs:
        together.setdefault(tuple(_settings(run).items()), []).append(run)
    configs = [dict(key) for key in together]
    apart = _told_apart(configs)
    result = [
        _Group(
            {name: config[name] for name in apart},
            sorted(members, key=lambda run: run.config.seed),
        )
        for config, members in zip(configs, together.values(), strict=True)
    ]
    return sorted(result, key=lambda group: [(v is None, v) for v in group.fields.values()])


def _told_apart(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings that tell the configurations apart.

    First the language. Then architecture and mask, if they differ within a language: they decide
    the defaults of all other settings. Last, whatever else differs between runs that agree so far.
    """
    keys = ["language"]

    def cells(names: Sequence[str]) -> int:
        return len({tuple(config[name] for name in names) for config in configs})

    keys += [name for name in ("architecture", "mask") if cells(["language", name]) > cells(keys)]
    others = [name for name in (configs[0] if configs else ()) if name not in keys]
    return keys + [name for name in others if cells([*keys, name]) > cells(keys)]


def chosen(path: Path) -> tuple[list[Run], list[str]]:
    """The finished runs that a path stands for, each seed once; and notes on runs left out.

    Args:
        path: a run, which stands for all its seeds, or a folder of runs.

    Raises:
        UserError: no finished run is there.
    """
    run = Run(path) if (path / RUN_FILE).is_file() or not find_runs(path) else None
    opened, damaged = _opened(run.path.parent if run else path)
    return _finished(path, _alike(run, opened) if run else opened, damaged)


def two_kinds(first: Path, second: Path) -> tuple[list[Run], list[Run]]:
    """The finished runs that differ from each of two in the seed alone, itself among them.

    Raises:
        UserError: a path is no run, a side has fewer than two finished ones, or both are of one
            kind.
    """
    samples = Run(first), Run(second)
    opened = {folder: _opened(folder)[0] for folder in {run.path.parent for run in samples}}
    one, other = (_finished(r.path, _alike(r, opened[r.path.parent]), {})[0] for r in samples)
    if len(groups([one[0], other[0]])) < 2:
        raise UserError(
            f"{first.name} and {second.name} differ in the seed alone: compare two configurations"
        )
    for path, runs in zip((first, second), (one, other), strict=True):
        if len(runs) < 2:
            raise UserError(
                f"{path.name} is the only seed of its kind: train it with another --seed, and the "
                "two kinds can be compared"
            )
    return one, other


def _finished(
    path: Path, opened: Iterable[tuple[Run, _Settings]], left_out: dict[str, list[str]]
) -> tuple[list[Run], list[str]]:
    """The finished ones of opened runs, each seed once; and notes on the others and on those that
    were left out before, by reason. Raises UserError where none is finished."""
    runs: dict[tuple[Any, ...], Run] = {}
    for run, settings in opened:
        key, status = (*settings.values(), run.config.seed), run.opened["status"]
        if status == "diverged":
            left_out.setdefault(DIVERGED, []).append(run.name)
        elif status != "finished":
            left_out.setdefault(f"{UNFINISHED}: `lab resume` goes on with it", []).append(run.name)
        elif key in runs:
            reason = f"the same configuration and seed as {runs[key].name}"
            left_out.setdefault(reason, []).append(run.name)
        else:
            runs[key] = run
    notes = [f"without {', '.join(names)}: {reason}" for reason, names in left_out.items()]
    if not runs:
        raise UserError(f"no finished run in {path}: {'; '.join(notes)}")
    return list(runs.values()), notes


# -- asking ---------------------------------------------------------------------------------------


def ask_all(
    runs: Sequence[Run],
    names: Sequence[str],
    workers: int = 1,
    progress: Progress = quiet,
    scheduler: str | None = None,
) -> dict[tuple[str, str], str]:
    """Asks every run what it was not asked before.

    Returns:
        The reason why there is no answer, by run and analysis, where there is none.
    """
    unasked = [(run, name) for run in runs for name in names if not _is_kept(run, name)]
    jobs = {(run.name, name): (run.path, name) for run, name in unasked}
    reasons: dict[tuple[str, str], str] = {}
    if not jobs:
        return reasons
    done = 0

    def inside(_: int, __: int, what: str) -> None:
        progress(done, len(jobs), what)

    # Other processes cannot be watched while they work.
    here = workers == 1 and scheduler is None
    work = partial(_asked, progress=inside) if here else _asked
    for (run, name), reason in side_by_side(work, jobs, workers, scheduler):
        done += 1
        progress(done, len(jobs), f"{run} {name}")
        if reason is not None:
            reasons[run, name] = reason
    return reasons


def _is_kept(run: Run, name: str) -> bool:
    try:
        return Answers.of(run, name).asked(arguments_of(question(name).options())) is not None
    except UserError:  # damaged: the reason is told when it is asked
        return False


def _asked(path: Path, name: str, progress: Progress = quiet) -> str | None:
    """Answers one question in the run's folder. Returns the reason where this is not possible."""
    try:
        answer(Run(path), name, None, progress)
    except UserError as error:
        return str(error)
    return None


# -- the tables -----------------------------------------------------------------------------------


def means(results: Sequence[Kept]) -> pd.DataFrame:
    """The means of the headline numbers of kept answers to one question.

    Returns:
        One row per number: the columns of the question's ``headline`` except value, then mean, low
        and high (95%; Student's over the runs, by ``seeds_interval``; of a yes or no Wilson's) and
        seeds.
    """
    if not results:
        return pd.DataFrame()
    rows, module = by_run(results), question(results[0].record.analysis)
    labels = [column for column in rows.columns if column not in ("run", "value")]
    table = []
    for key, values in rows.dropna(subset=["value"]).groupby(labels, sort=False)["value"]:
        mean, low, high = seeds_interval(values.to_numpy())
        number = dict(zip(labels, key, strict=True))
        if number.get("of") in module.outcomes and len(values) > 1:
            low, high = wilson(int(values.sum()), len(values))
        table.append(number | {"mean": mean, "low": low, "high": high, "seeds": len(values)})
    return pd.DataFrame(table)


def by_run(results: Sequence[Kept]) -> pd.DataFrame:
    """The numbers of kept answers to one question: the columns of its ``headline``, and run."""
    table = numbers(row for kept in results for row in kept.record.numbers)
    names = [kept.folder.parents[1].name for kept in results]
    return table.assign(run=np.repeat(names, [len(kept.record.numbers) for kept in results]))


def comparable(runs: Sequence[Run], name: str) -> tuple[list[Kept], dict[str, str]]:
    """The kept answers of finished runs to one and the same question.

    They are those to the question that most runs were asked, with the same options. Among several
    such questions it is the one with the default options.

    Returns:
        The answers; and the reason by run, for each run that has none among them.
    """
    usable: list[tuple[Run, list[Kept]]] = []
    reasons: dict[str, str] = {}
    for run in runs:
        try:
            usable.append((run, _usable(run, name)))
        except UserError as error:
            reasons[run.name] = str(error)
    if not usable:
        return [], reasons
    arguments = _commonest([answers for _, answers in usable], name)
    results = []
    for run, answers in usable:
        kept = next((kept for kept in answers if kept.record.arguments == arguments), None)
        try:
            if kept and kept.content():
                results.append(kept)
            else:
                reasons[run.name] = ASKED_OTHERWISE
        except FileNotFoundError:
            reasons[run.name] = RENEWED
        except UserError as error:
            reasons[run.name] = str(error)
    return results, reasons


def _usable(run: Run, name: str) -> list[Kept]:
    """The kept answers of a run that still hold. Raises UserError with the reason where there is
    none."""
    if run.opened["status"] != "finished":
        raise UserError(UNFINISHED)
    answers = Answers.of(run, name)
    if usable := answers.current():
        return usable
    hashes = {kept.record.model_hash for kept in answers.all()}
    if not hashes:
        raise UserError(UNASKED)
    raise UserError(OTHER_VERSION if answers.model_hash in hashes else EARLIER)


def _commonest(answers: Iterable[Sequence[Kept]], name: str) -> dict[str, Any]:
    """The options that most runs were asked with."""
    counts = Counter(
        arguments
        for group in answers
        for arguments in {json.dumps(entry.record.arguments, sort_keys=True) for entry in group}
    )
    default = json.dumps(arguments_of(question(name).options()), sort_keys=True)
    chosen = max(counts, key=lambda arguments: (counts[arguments], arguments == default))
    options: dict[str, Any] = json.loads(chosen)
    return options


def over_groups(
    runs: Sequence[Run],
    names: Sequence[str],
    refused: Mapping[tuple[str, str], str] | None = None,
    table_of: Callable[[Sequence[Kept]], pd.DataFrame] = means,
) -> tuple[pd.DataFrame, list[str]]:
    """The table of every group and analysis, one below the other.

    Args:
        refused: the reason why there is no answer, by run and analysis.
        table_of: ``means``, or ``by_run``.

    Returns:
        A table with the columns group (its label), the fields of the group, analysis, and those of
        ``table_of``; and notes, a line each, on which runs are missing where.
    """
    tables, notes = [], []
    for group in groups(runs):
        for name in names:
            results, reasons = comparable(group.runs, name)
            table = table_of(results)
            if results and table.empty:
                notes.append(f"{name} of {group.label}: no number is defined")
            missing: dict[str, list[str]] = {}
            for run, reason in reasons.items():
                why = refused.get((run, name), reason) if refused else reason
                missing.setdefault(why.removeprefix(f"{run} "), []).append(run)
            notes += [f"{name} without {', '.join(who)}: {why}" for why, who in missing.items()]
            if len(table):
                about = {"group": group.label, **group.fields, "analysis": name}
                tables.append(pd.DataFrame([about] * len(table)).join(table))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(), notes


def for_reading(
    table: pd.DataFrame, columns: int
) -> tuple[list[tuple[str | None, pd.DataFrame]], str]:
    """The table of ``over_groups`` for reading.

    Args:
        columns: the number of variables side by side; the others follow below.

    Returns:
        Tables, the first of each group and analysis with a title; and a sentence that says what
        their numbers are.
    """
    parts: list[tuple[str | None, pd.DataFrame]] = []
    counts = table.groupby(["group", "analysis"], sort=False)["seeds"].max()
    for (group, name), rows in table.groupby(["group", "analysis"], sort=False):
        shown = wide(rows)
        for start in range(0, shown.shape[1], columns):
            part = shown.iloc[:, start : start + columns]
            part = part[(part != "").any(axis=1)].reset_index()
            title = f"{group}: {name}, {_seeds(counts[group, name])}"
            parts.append((None if start else title, part))
    if counts.max() == 1:
        return parts, "One seed: no interval."
    few = "" if counts.nunique() == 1 else f"{counts.min()} to "
    text = f"Mean over {few}{_seeds(counts.max())}"
    return parts, f"{text} [95% interval: Student's, within the range; of yes or no Wilson's]."


def _seeds(count: int) -> str:
    return f"{count} seed{'s' if count > 1 else ''}"


def figure(value: float, sign: str = "") -> str:
    """A number for reading: two digits, or none if it is large.

    Args:
        sign: "+" for a difference, which says on which side of 0 it lies.
    """
    shown = f"{value:{sign}.{0 if abs(value) >= 100 else 2}f}"
    return shown if sign else shown.replace("-0.00", "0.00")


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """The table for reading: a row per number, a column per variable, "mean [low, high]".

    A number that not all seeds have says so: "(2 of 3)".
    """
    if table.empty:
        return pd.DataFrame()

    most = table["seeds"].max()
    texts = [
        figure(row.mean_)
        + ("" if pd.isna(row.low) else f" [{figure(row.low)}, {figure(row.high)}]")
        + (f" ({row.seeds} of {most})" if row.seeds < most else "")
        for row in table.rename(columns={"mean": "mean_"}).itertuples()
    ]
    grid = table.assign(said=texts).pivot(index="of", columns="variable", values="said")
    order = {name: list(dict.fromkeys(table[name])) for name in ("of", "variable")}
    return grid.loc[order["of"], order["variable"]].fillna("")
