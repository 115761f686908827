"""Which explanation method tells the truth? Every method on many models that learned the rule.

Several seeds of each language are trained as normal runs. Each run is asked for its own
leaderboard, and the means over words are compared over seeds. What is finished is not done again,
so a leaderboard that was interrupted goes on. OUT keeps the runs, and beside them

    OUT/results/leaderboard-1/    a row per language, replacement, method and measure
    OUT/leaderboard.html          the report: one file, which needs no other
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Progress, answer, plain, quiet, save
from analyses.jobs.trained import trained
from analyses.jobs.workers import side_by_side
from analyses.options.questions import Leaderboard as OfRun
from analyses.options.studies import CLEAN, PLANTED, Leaderboard
from analyses.questions import leaderboard as of_run
from analyses.studies import claims
from interp.statistics import t_interval
from models.config import TrainConfig
from models.runs.run import Run, run_name
from models.training.recipes import recipe_or_plain

QUESTION = "LIME, SHAP, gradients, attention or interventions: which of them tells the truth?"
NAME = "leaderboard"


def recipes(asked: Leaderboard) -> dict[str, TrainConfig]:
    """How the runs of each language are trained."""
    return {name: recipe_or_plain(name, asked.recipe) for name in asked.languages}


def leaderboard(asked: Leaderboard, progress: Progress = quiet) -> Answer:
    """Trains the runs and scores every method. One row per language, replacement, method, measure.

    Columns: language, replacement, method, family, measure (``of_run.MEASURES``, and for the
    pair of clean and planted models "shortcut found"), mean, low, high (95%, Student's t over
    seeds; NaN for a single one), seeds.
    """
    configs = {
        (name, seed): replace(config, seed=seed, steps=asked.steps or config.steps)
        for name, config in recipes(asked).items()
        for seed in range(asked.seeds)
    }
    tables = {}
    progress(0, len(configs), "training and explaining the first")
    jobs = {
        key: (asked.out / run_name(c), c, asked.words, asked.device) for key, c in configs.items()
    }
    answers = side_by_side(complete, jobs, asked.workers, asked.scheduler)
    for done, (key, table) in enumerate(answers):
        tables[key] = table
        progress(done + 1, len(configs), f"{key[0]}, seed {key[1]}")
    tables = {key: tables[key] for key in configs}
    by_seed = pd.concat([means(table, *key) for key, table in tables.items()], ignore_index=True)
    by_seed = pd.concat([by_seed, shortcut_found(tables)], ignore_index=True)
    table = over_seeds(by_seed)
    arguments: dict[str, Any] = {"languages": list(asked.languages), "seeds": asked.seeds}
    arguments |= {"recipe": asked.recipe, "words": asked.words, "steps": asked.steps}
    right = {
        name: [
            float(tables[name, seed].drop_duplicates("word")["right"].mean())
            for seed in range(asked.seeds)
        ]
        for name in asked.languages
    }
    said = claims.verdict(by_seed)
    found = {"claims": said, "right": right}
    found["pairs"] = claims.evidence(by_seed).pairs.replace({np.nan: None}).to_dict("records")
    result = Answer(table, " ".join(said), plain(found), arguments)
    return save(asked.out, NAME, QUESTION, result, chart(result))


def first_words(asked: Leaderboard) -> dict[str, Answer]:
    """One explained word per language, by its first seed."""
    paths = {name: asked.out / run_name(config) for name, config in recipes(asked).items()}
    return {name: answer(Run(path), "explanations")[0] for name, path in paths.items()}


def complete(path: Path, config: TrainConfig, words: int, device: str) -> pd.DataFrame:
    """Trains the run if need be and explains its verdicts."""
    run = trained(path, config, device=device)
    options = OfRun(words=words, seed=config.seed)
    return answer(run, "leaderboard", options)[0].table


def means(table: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """The means over words of one run: a row per replacement, method and measure."""
    keys = ["replacement", "method", "family"]
    mean = table.groupby(keys, sort=False)[list(of_run.MEASURES)].mean().reset_index()
    long = mean.melt(keys, var_name="measure").dropna(subset=["value"])
    return long.assign(language=name, seed=seed)


def shortcut_found(tables: Mapping[tuple[str, int], pd.DataFrame]) -> pd.DataFrame:
    """Does a method tell a model that leans on the shortcut from a clean one?

    "shortcut found" is an AUROC over all pairs of a line of the planted model and a line of the
    clean model of the same seed: how often the method puts a larger share of its absolute values on
    the shortcut symbol in the first. 0.5 is chance. Empty without both kinds of models.
    """
    parts = []
    for (name, seed), planted in tables.items():
        clean = tables.get((CLEAN, seed))
        if name != PLANTED or clean is None:
            continue
        keys = ["replacement", "method", "family"]
        other = dict(iter(clean.groupby(keys)["shortcut"]))
        for key, values in planted.groupby(keys, sort=False)["shortcut"]:
            have, lack = values.dropna().to_numpy(), other[key].dropna().to_numpy()
            if len(have) and len(lack):
                gap = have[:, None] - lack
                value = float(((gap > 0) + 0.5 * (gap == 0)).mean())
                row = dict(zip(keys, key, strict=True))
                parts.append(
                    row
                    | {
                        "measure": of_run.FOUND,
                        "value": value,
                        "language": PLANTED,
                        "seed": seed,
                    }
                )
    return pd.DataFrame(parts)


def over_seeds(by_seed: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds with Student's intervals."""
    keys = ["language", "replacement", "method", "family", "measure"]
    rows = [
        (*key, *t_interval(values.to_numpy()), len(values))
        for key, values in by_seed.groupby(keys, sort=False)["value"]
    ]
    return pd.DataFrame(rows, columns=[*keys, "mean", "low", "high", "seeds"])


def wide(table: pd.DataFrame, name: str, replacement: str, measures: Sequence[str]) -> pd.DataFrame:
    """The table for reading, of one language and replacement: a row per method, a column per
    measure, "mean ± half of the interval"."""
    rows = table[(table["language"] == name) & (table["replacement"] == replacement)]
    rows = rows[rows["measure"].isin(measures)]
    half = (rows["high"] - rows["low"]) / 2

    def text(value: float, spread: float) -> str:
        digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 0.1 else 3
        shown = f"{value:.{digits}f}"
        return shown if np.isnan(spread) else f"{shown} ± {spread:.{digits}f}"

    said = [text(*pair) for pair in zip(rows["mean"], half, strict=True)]
    grid = rows.assign(said=said).pivot(index="method", columns="measure", values="said")
    order = list(dict.fromkeys(rows["method"]))
    grid = grid.loc[order, [m for m in measures if m in grid.columns]]
    return grid.fillna("").rename_axis(columns=None).reset_index()


# -- kept -----------------------------------------------------------------------------------------


SHOWN = ("AUROC", "cosine to the language", "cosine to the model", "normalised AOPC")


def chart(result: Answer, shown: Sequence[str] = SHOWN) -> ChartType:
    """A row of panels per language, one per measure: means over seeds with their intervals."""
    rows = []
    for name, table in result.table.groupby("language", sort=False):
        there = [measure for measure in shown if (table["measure"] == measure).any()]
        if there:
            part = of_run.panels(table[table["measure"].isin(there)], there)
            rows.append(part.properties(title=str(name)))
    figure: ChartType = alt.vconcat(*rows, spacing=24)
    return figure
