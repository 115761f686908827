"""Which explanation method tells the truth? Every method on many models that learned the rule.

Several seeds of each language and architecture are trained as normal runs. Each run is asked for
its own leaderboard, and the means over words are compared over seeds. What is finished is not done
again, so a leaderboard that was interrupted goes on. OUT keeps the runs, and beside them

    OUT/results/leaderboard-1/    a row per language, architecture, kind of words, replacement,
                                  method, scale and measure
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
from analyses.charts.leaderboard import FOUND, MEASURES, PANELS, panels
from analyses.claims import interval_text
from analyses.jobs.trained import trained
from analyses.jobs.workers import side_by_side
from analyses.options.studies import CLEAN, PLANTED, Leaderboard
from analyses.options.words import Leaderboard as OfRun
from analyses.questions.words.explanations import on_scale
from analyses.questions.words.leaderboard import KEYS
from analyses.studies import claims
from analyses.studies.reliance import credit
from interp.explanations.games import SCALES
from interp.explanations.methods import called
from interp.statistics import seeds_interval
from models.config import TrainConfig
from models.model_config import ModelConfig
from models.runs.run import Run, run_name
from models.training.recipes import recipe, recipe_or_plain

QUESTION = "LIME, SHAP, gradients, attention or interventions: which of them tells the truth?"
NAME = "leaderboard"
NOT_OFFERED = "not offered"

Key = tuple[str, str, int]
"""A run: its language, its architecture in words, its seed."""


def _recipes(options: Leaderboard) -> dict[tuple[str, str], TrainConfig]:
    """The training configuration of each language and architecture."""
    configs = [
        recipe_or_plain(name, options.recipe)
        if kind == "transformer"
        else recipe(name, ModelConfig(architecture=kind))
        for name in options.languages
        for kind in options.architectures
    ]
    return {(config.language, _architecture(config.model)): config for config in configs}


def _architecture(config: ModelConfig) -> str:
    """The architecture in words; heads that are fixed by construction are named."""
    fixed = config.counting.averaging_heads
    if not fixed:
        return config.architecture
    return f"{config.architecture}, {fixed} of {config.n_heads} heads fixed"


def leaderboard(options: Leaderboard, progress: Progress = quiet) -> Answer:
    """Trains the runs and scores every method.

    One row per language, architecture, membership, replacement, method, scale and measure.

    Columns: language, architecture, membership (members, non-members), replacement, method, scale,
    family, measure (``MEASURES``, and for the pair of clean and planted models "shortcut found"),
    mean, low, high (95%, Student's t over seeds; NaN for a single one), seeds, words (of all seeds
    together). An architecture without attention has no rows of methods that read attention.
    """
    configs = {
        (*key, seed): replace(config, seed=seed, steps=options.steps or config.steps)
        for key, config in _recipes(options).items()
        for seed in range(options.seeds)
    }
    results: dict[Key, Answer] = {}
    progress(0, len(configs), "training and explaining the first")
    jobs = {
        k: (options.out / run_name(c), c, options.words, options.device) for k, c in configs.items()
    }
    answers = side_by_side(_complete, jobs, options.workers, options.scheduler)
    for done, (key, one) in enumerate(answers):
        results[key] = one
        progress(done + 1, len(configs), f"{key[0]}, {key[1]}, seed {key[2]}")
    tables = {key: results[key].table for key in configs}
    by_seed = pd.concat([means(table, *key) for key, table in tables.items()], ignore_index=True)
    by_seed = pd.concat([by_seed, _shortcut_found(tables)], ignore_index=True)
    table = _over_seeds(by_seed)
    arguments: dict[str, Any] = {"languages": list(options.languages), "seeds": options.seeds}
    arguments |= {"recipe": options.recipe, "architectures": list(options.architectures)}
    arguments |= {"words": options.words, "steps": options.steps}
    right: dict[str, dict[str, list[float]]] = {}
    for name, kind, seed in configs:
        share = float(results[name, kind, seed].findings["right"])
        right.setdefault(name, {}).setdefault(kind, []).append(share)
    credited = credit(tables, {key: one.findings["reliance"] for key, one in results.items()})
    texts = claims.verdict(by_seed, credited)
    findings = {"claims": texts, "right": right, "credit": credited.to_dict("records")}
    findings["pairs"] = claims.evidence(by_seed).pairs.replace({np.nan: None}).to_dict("records")
    tests = claims.in_each_language(by_seed)
    findings["by_language"] = tests.replace({np.nan: None}).to_dict("records")
    result = Answer(table, " ".join(texts), plain(findings), arguments)
    return save(options.out, NAME, QUESTION, result, chart(result))


def first_words(options: Leaderboard) -> dict[str, Answer]:
    """One explained word per language, by the first seed of its first architecture."""
    runs = {name: options.out / run_name(c) for (name, _), c in reversed(_recipes(options).items())}
    return {name: answer(Run(runs[name]), "explanations")[0] for name in options.languages}


def _complete(path: Path, config: TrainConfig, words: int, device: str) -> Answer:
    """Trains the run if need be and explains its verdicts."""
    run = trained(path, config, device=device)
    options = OfRun(words=words, seed=config.seed)
    return answer(run, "leaderboard", options)[0]


def means(table: pd.DataFrame, name: str, kind: str, seed: int) -> pd.DataFrame:
    """The means over words of one run: a row per ``KEYS`` and measure, with its number of words."""
    long = table.melt(KEYS, list(MEASURES), "measure").dropna(subset=["value"])
    groups = long.groupby([*KEYS, "measure"], sort=False)["value"]
    mean = groups.agg(value="mean", words="size").reset_index()
    return mean.assign(language=name, architecture=kind, seed=seed)


def _shortcut_found(tables: Mapping[Key, pd.DataFrame]) -> pd.DataFrame:
    """Does a method tell a model that leans on the shortcut from a clean one?

    "shortcut found" is an AUROC over all pairs of a line of the planted model and a line of the
    clean model of the same architecture and seed: how often the method puts a larger share of its
    absolute values on the shortcut symbol in the first. 0.5 is chance. Empty without both kinds of
    models.
    """
    parts = []
    for (name, kind, seed), planted in tables.items():
        clean = tables.get((CLEAN, kind, seed))
        if name != PLANTED or clean is None:
            continue
        other = dict(iter(clean.groupby(KEYS)["shortcut"]))
        for key, values in planted.groupby(KEYS, sort=False)["shortcut"]:
            have = values.dropna().to_numpy()
            lack = other[key].dropna().to_numpy() if key in other else np.empty(0)
            if len(have) and len(lack):
                gap = have[:, None] - lack
                value = float(((gap > 0) + 0.5 * (gap == 0)).mean())
                row = dict(zip(KEYS, key, strict=True)) | {"measure": FOUND, "value": value}
                row |= {"language": PLANTED, "architecture": kind, "seed": seed}
                parts.append(row | {"words": len(have)})
    return pd.DataFrame(parts)


def _over_seeds(by_seed: pd.DataFrame) -> pd.DataFrame:
    """Means over seeds, with intervals by ``seeds_interval``."""
    keys = ["language", "architecture", *KEYS, "measure"]
    values, words = by_seed["value"].to_numpy(), by_seed["words"].to_numpy()
    cells = by_seed.groupby(keys).indices
    rows = [
        (*key, *seeds_interval(values[cells[key]]), len(cells[key]), int(words[cells[key]].sum()))
        for key in by_seed[keys].drop_duplicates().itertuples(index=False, name=None)
    ]
    return pd.DataFrame(rows, columns=[*keys, "mean", "low", "high", "seeds", "words"])


def wide(
    table: pd.DataFrame, name: str, membership: str, replacement: str, measures: Sequence[str]
) -> pd.DataFrame:
    """The table for reading, of one language, kind of words and replacement.

    A row per method and scale, a column per measure and architecture, "mean [low, high]". A method
    that an architecture cannot be asked is "not offered".
    """
    rows = table[(table["language"] == name) & (table["membership"] == membership)]
    rows = rows[rows["replacement"] == replacement]
    named = [called(*pair) for pair in zip(rows["method"], rows["scale"], strict=True)]
    kinds = list(dict.fromkeys(rows["architecture"]))
    rows = rows.assign(
        method=named,
        column=rows["measure"] + (", " + rows["architecture"] if len(kinds) > 1 else ""),
    )

    def text(value: float, low: float, high: float) -> str:
        digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 0.1 else 3
        return interval_text(value, low, high, f".{digits}f")

    texts = [text(*values) for values in rows[["mean", "low", "high"]].itertuples(index=False)]
    grid = rows.assign(said=texts).pivot(index="method", columns="column", values="said")
    pairs = [(f"{m}, {kind}" if len(kinds) > 1 else m, kind) for m in measures for kind in kinds]
    pairs = [(column, kind) for column, kind in pairs if column in grid.columns]
    grid = grid.loc[list(dict.fromkeys(named)), [column for column, _ in pairs]].fillna("")
    for column, kind in pairs:
        offered = set(rows.loc[rows["architecture"] == kind, "method"])
        grid.loc[[method for method in grid.index if method not in offered], column] = NOT_OFFERED
    return grid.rename_axis(columns=None).reset_index()


# -- kept -----------------------------------------------------------------------------------------


def chart(result: Answer, shown: Sequence[str] = PANELS, scale: str = SCALES[0]) -> ChartType:
    """A row of panels per language, architecture and kind of words, one panel per measure.

    Means over seeds with their intervals.

    Args:
        scale: the scale of the verdict, for the methods that have both.
    """
    rows = []
    groups = ["language", "architecture", "membership"]
    for key, table in on_scale(result.table, scale).groupby(groups, sort=False):
        there = [measure for measure in shown if (table["measure"] == measure).any()]
        if there:
            part = panels(table[table["measure"].isin(there)], there)
            rows.append(part.properties(title=", ".join(key)))
    return alt.vconcat(*rows, spacing=24)
