"""The cost of a sweep: runs, parameters and hours, before anything is trained."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import log
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from analyses.answers import Progress, quiet
from analyses.studies.sweeps.exam import kept
from analyses.studies.sweeps.plan import Plan, Planned
from models.base import build
from models.config import TrainConfig
from models.languages import language
from models.languages.tokens import tokenised
from models.languages.vocabulary import Vocabulary
from models.model_config import ModelConfig
from models.runs.run import Run
from models.training.trainer import Trainer, choose_device, threads

TIMED = 36
"""Settings that are timed; the others lie between them."""
STEPS = 3
"""Steps that are timed of each, after one that is not."""


def estimated(plan: Plan, device: str, progress: Progress = quiet) -> pd.DataFrame:
    """The cost of each setting of a sweep on this machine. One row per setting.

    A few settings are timed for a few steps, in a folder that is removed again. For the others the
    time of a step lies between those of their neighbours in size, architecture by architecture.

    Columns: setting (the names of its runs, without the seed), language, runs, finished (of them,
    which are not counted in hours), parameters (numbers that are learned), steps, hours (of
    training, all runs one after another; evaluations and judging are left out).
    """
    settings: dict[TrainConfig, list[Planned]] = {}
    for run in plan.runs:
        settings.setdefault(replace(run.config, seed=0), []).append(run)
    parameters = {config: _parameters(config.model, _read_by(config)) for config in settings}
    seconds = _seconds(list(settings), device, progress)
    rows = []
    for config, members in settings.items():
        done = sum(kept(plan.folder / run.name, plan.file.exam) is not None for run in members)
        hours = (len(members) - done) * config.steps * seconds[config] / 3600
        name = members[0].name.rpartition("-s")[0]
        row = {"setting": name, "language": config.language, "runs": len(members)}
        row |= {"finished": done, "parameters": parameters[config], "steps": config.steps}
        rows.append(row | {"hours": hours})
    return pd.DataFrame(rows)


def in_words(table: pd.DataFrame, workers: int) -> str:
    """The cost of a sweep, in two sentences."""
    low, high, total = table["parameters"].min(), table["parameters"].max(), table["hours"].sum()
    runs, done = table["runs"].sum(), table["finished"].sum()
    span = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    finished = f", {done:,} of them finished" if done else ""
    busy = min(workers, runs - done)
    shared = f", about {_spoken(total / busy)} with {busy} workers" if busy > 1 else ""
    return (
        f"{runs:,} runs in {len(table):,} settings{finished}; {span} parameters. Training would "
        f"take about {_spoken(total)} on one core{shared}; evaluations and judging come on top."
    )


def _spoken(hours: float) -> str:
    """A time in its usual unit."""
    if hours < 1 / 60:
        return f"{3600 * hours:.0f} seconds"
    return f"{60 * hours:.0f} minutes" if hours < 1 else f"{hours:,.1f} hours"


def _read_by(config: TrainConfig) -> Vocabulary:
    """The tokens that a model reads."""
    return tokenised(language(config.language), config.vocabulary).vocabulary


@lru_cache
def _parameters(config: ModelConfig, vocabulary: Vocabulary) -> int:
    """The number of parameters of a model. No weight is drawn for it."""
    with torch.device("meta"):
        model = build(config, vocabulary)
    return sum(tensor.numel() for tensor in model.state_dict().values())


def _size(config: TrainConfig) -> float:
    """The size by which settings are ordered: the numbers that a step touches, on a log scale."""
    window = language(config.language).length_of(config.max_n)
    return log((1 + config.model.size) * config.batch_size * window)


def _seconds(
    configs: Sequence[TrainConfig], device: str, progress: Progress
) -> Mapping[TrainConfig, float]:
    """The seconds that a step of each configuration takes."""
    by_kind: dict[str, list[TrainConfig]] = {}
    for config in sorted(configs, key=_size):
        by_kind.setdefault(config.model.architecture, []).append(config)
    most = max(2, TIMED // len(by_kind))
    chosen = {kind: _spread(group, most) for kind, group in by_kind.items()}
    all_chosen = [config for group in chosen.values() for config in group]
    timed = {}
    for done, config in enumerate(all_chosen):
        progress(done, len(all_chosen), f"timing {config.language}")
        timed[config] = _timed(config, device)
    result: dict[TrainConfig, float] = {}
    for kind, group in by_kind.items():
        sizes = [_size(config) for config in chosen[kind]]
        seconds = [timed[config] for config in chosen[kind]]
        result |= {config: float(np.interp(_size(config), sizes, seconds)) for config in group}
    return result


def _spread(configs: Sequence[TrainConfig], most: int) -> list[TrainConfig]:
    """Up to so many of them, from the first to the last."""
    places = np.linspace(0, len(configs) - 1, min(most, len(configs)))
    return [configs[round(place)] for place in places]


def _timed(config: TrainConfig, device: str) -> float:
    """The seconds of a step, the fastest of a few."""
    with tempfile.TemporaryDirectory() as folder, threads(config.threads):
        trainer = Trainer.at_start(
            Run.create(Path(folder) / "timed", config), choose_device(device)
        )
        seconds = []
        for _ in range(1 + STEPS):
            began = time.perf_counter()
            float(trainer.advance())
            seconds.append(time.perf_counter() - began)
        return min(seconds[1:])
