"""Who tells the truth? Every explanation method on many models that learned the rule, in one table.

Several seeds of each language are trained as normal runs, each is asked ``explainers``, and the
means over words are compared over seeds. What is finished is not done again, so a leaderboard that
broke off goes on. OUT keeps the runs, and beside them

    OUT/results/leaderboard.{parquet,json}    a row per language, replacement, method and measure
    OUT/figures/leaderboard.{svg,html}
    OUT/leaderboard.html                      the report: one file, which asks for no other
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from tyro.conf import Positional

from analyses import explainers
from analyses.results import Progress, Result, answer, plain, quiet, render
from analyses.workers import side_by_side, trained
from interp.agreement import LOWER
from interp.statistics import t_interval
from models.config import TrainConfig
from models.errors import UserError
from models.files import read_json, write_bytes, write_json
from models.languages import language
from models.recipes import recipe
from models.runs import PACKAGES, Run, installed_versions, run_name

QUESTION = "LIME, SHAP, gradients, attention or cause: who tells the truth?"
NAME = "leaderboard"
CLEAN, PLANTED = "dieren", "dieren_muis"
"""The same language; the training lines of the second carry a shortcut."""


@dataclass(frozen=True)
class Leaderboard:
    """Train several seeds, explain their verdicts with every method, and score the methods.

    Attributes:
        languages: whose models are explained.
        seeds: how many, from 0 on.
        words: per seed, other ones for each.
        steps: of every run, instead of its recipe's.
        out: the folder of the runs, the table and the report.
        workers: processes side by side.
        scheduler: the address of a Dask scheduler, whose workers do it instead.
    """

    languages: Positional[tuple[str, ...]] = ("anbncn", "anbn", CLEAN, PLANTED)
    seeds: int = 5
    words: int = 100
    steps: int | None = None
    out: Path = Path("runs/leaderboard")
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))
    scheduler: str | None = None

    def __post_init__(self) -> None:
        for name in ("seeds", "words", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}: it must be at least 1")
        for name in self.languages:
            language(name)


def leaderboard(asked: Leaderboard, progress: Progress = quiet) -> Result:
    """Runs it. One row per language, replacement, method and measure.

    Columns: language, replacement, method, family, measure (``explainers.MEASURES``, and for the
    pair of clean and planted models "shortcut found"), mean, low, high (95%, Student's t over
    seeds; NaN of a single one), seeds.
    """
    configs = {
        (name, seed): replace(recipe(name), seed=seed, steps=asked.steps or recipe(name).steps)
        for name in asked.languages
        for seed in range(asked.seeds)
    }
    tables = {}
    progress(0, len(configs), "training and explaining the first")
    jobs = {key: (asked.out / run_name(c), c, asked.words) for key, c in configs.items()}
    answers = side_by_side(complete, jobs, asked.workers, asked.scheduler)
    for done, (key, table) in enumerate(answers):
        tables[key] = table
        progress(done + 1, len(configs), f"{key[0]}, seed {key[1]}")
    tables = {key: tables[key] for key in configs}
    by_seed = pd.concat([means(table, *key) for key, table in tables.items()], ignore_index=True)
    found = shortcut_found(tables)
    table = over_seeds(pd.concat([by_seed, found], ignore_index=True))
    arguments: dict[str, Any] = {"languages": list(asked.languages), "seeds": asked.seeds}
    arguments |= {"words": asked.words, "steps": asked.steps}
    right = {
        name: [
            float(tables[name, seed].drop_duplicates("word")["right"].mean())
            for seed in range(asked.seeds)
        ]
        for name in asked.languages
    }
    claims = verdict(table)
    summary = " ".join(claims)
    result = Result(
        table, plain({"summary": summary, "claims": claims, "right": right}), arguments, ""
    )
    save(asked.out, result)
    return result


def first_words(asked: Leaderboard) -> dict[str, Result]:
    """One explained word per language, of its first seed."""
    paths = {name: asked.out / run_name(recipe(name)) for name in asked.languages}
    return {name: answer(Run(path), "attribution")[0] for name, path in paths.items()}


def complete(path: Path, config: TrainConfig, words: int) -> pd.DataFrame:
    """Trains the run if need be and explains its verdicts."""
    run = trained(path, config)
    options = explainers.Options(words=words, seed=config.seed)
    return answer(run, "explainers", options)[0].table


def means(table: pd.DataFrame, name: str, seed: int) -> pd.DataFrame:
    """One run: a row per replacement, method and measure; the mean over words."""
    keys = ["replacement", "method", "family"]
    mean = table.groupby(keys, sort=False)[list(explainers.MEASURES)].mean().reset_index()
    long = mean.melt(keys, var_name="measure").dropna(subset=["value"])
    return long.assign(language=name, seed=seed)


def shortcut_found(tables: Mapping[tuple[str, int], pd.DataFrame]) -> pd.DataFrame:
    """Does a method tell a model that leans on the shortcut from a clean one?

    "shortcut found" is the AUROC of the share of absolute value that it puts on the shortcut
    symbol, over all pairs of a line of the planted and of the clean model of one seed: 0.5 is
    chance. Empty without both kinds of models.
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
                        "measure": explainers.FOUND,
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


# -- what the numbers say -------------------------------------------------------------------------


def verdict(table: pd.DataFrame) -> list[str]:
    """The lectures' three claims about the classical techniques, and what was measured.

    Means over the languages without a planted shortcut and over the replacements.
    """
    honest = table[(table["language"] != PLANTED) & (table["family"] != "control")]
    if honest.empty:
        honest = table[table["family"] != "control"]
    mean = honest.groupby(["measure", "method"])["mean"].mean()
    random = table[table["method"] == "random"].groupby("measure")["mean"].mean()

    def of(measure: str, method: str) -> float:
        return float(mean.get((measure, method), np.nan))

    def best(measure: str) -> str:
        ranked = mean[measure].drop(["SHAP exact", "Shapley exact"], errors="ignore")
        name = ranked.idxmin() if measure in LOWER else ranked.idxmax()
        return f"{name} ({ranked[name]:.2f})"

    said = []
    measures = [m for m in ("cosine to the language", "AUROC") if m in mean]
    told = "; ".join(
        f"{m}: LIME {of(m, 'LIME'):.2f}, SHAP kernel {of(m, 'SHAP kernel'):.2f}, best {best(m)}, "
        f"random {random.get(m, np.nan):.2f}"
        for m in measures
    )
    if told:
        above = all(
            of(m, name) > random.get(m, np.nan) + 0.2
            for m in measures
            for name in ("LIME", "SHAP kernel")
        )
        beaten = [m for m in measures if of(m, "substitution") >= of(m, "SHAP kernel")]
        said.append(
            '"Often less useful than hoped in Transformers": '
            + ("not so on these models, which follow the rule" if above else "so it is here")
            + f" ({told})"
            + (
                "; yet one substitution per symbol does as well or better by "
                f"{' and '.join(beaten)}."
                if beaten
                else "."
            )
        )
    ratio = of("seconds", "SHAP kernel") / of("seconds", "LIME")
    close = of("cosine to the model", "LIME"), of("cosine to the model", "SHAP kernel")
    said.append(
        'LIME is "fast, approximate": '
        f"it took {of('seconds', 'LIME') * 1e3:.0f} ms and {of('calls', 'LIME'):.0f} model calls a "
        f"word, SHAP's kernel {of('seconds', 'SHAP kernel') * 1e3:.0f} ms and "
        f"{of('calls', 'SHAP kernel'):.0f}; its cosine to the exact Shapley values is "
        f"{close[0]:.2f} (kernel {close[1]:.2f}). "
        + ("Fast it is not, beside SHAP." if ratio < 0.9 else "Fast it is.")
        + (" Approximate it is." if close[0] < close[1] else " No less exact than SHAP.")
    )
    steady = of("stability", "LIME"), of("stability", "SHAP kernel")
    exact = of("seconds", "Shapley exact") / of("seconds", "LIME")
    said.append(
        'SHAP is "grounded, consistent, but expensive": '
        f"over its own seeds the kernel agrees with itself at {steady[1]:.2f}, LIME at "
        f"{steady[0]:.2f}; it misses the exact values by {of('error', 'SHAP kernel'):.3f} "
        f"(LIME {of('error', 'LIME'):.3f}). All coalitions of these short words in one batch cost "
        f"{exact:.1f} times LIME, SHAP's kernel {ratio:.1f} times. "
        + ("Consistent it is" if steady[1] >= steady[0] else "More consistent it is not")
        + (", and dearer." if ratio > 1.1 else ", and on words this short not dearer.")
    )
    kernel = honest[(honest["method"] == "SHAP kernel") & (honest["measure"] == "AUROC")]
    if len(kernel):
        grid = kernel.pivot(index="language", columns="replacement", values="mean")
        name = (grid.max(axis=1) - grid.min(axis=1)).idxmax()
        row = grid.loc[name].sort_values()
        said.append(
            "What stands in for hidden symbols decides the answer: on "
            f"{name} the AUROC of SHAP's kernel goes from {row.iloc[0]:.2f} ({row.index[0]}) to "
            f"{row.iloc[-1]:.2f} ({row.index[-1]})."
        )
    planted = table[(table["measure"] == explainers.FOUND) & (table["family"] != "control")]
    if len(planted):
        ranked = planted.groupby("method")["mean"].mean().sort_values(ascending=False)
        control = table[(table["measure"] == explainers.FOUND) & (table["method"] == "random")]
        first = ", ".join(f"{name} {value:.2f}" for name, value in ranked.head(4).items())
        said.append(
            "A model that leans on a planted shortcut is told from a clean one, line by line "
            f"(AUROC), by {first}; worst by {ranked.index[-1]} ({ranked.iloc[-1]:.2f}); "
            f"random {control['mean'].mean():.2f}."
        )
    return said


def wide(table: pd.DataFrame, name: str, replacement: str, measures: Sequence[str]) -> pd.DataFrame:
    """For reading: a row per method of one language and replacement, "mean ± half the interval"."""
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


def save(out: Path, result: Result) -> None:
    """Table, record and figure. Raises UserError if the folder cannot be written."""
    buffer = io.BytesIO()
    result.table.to_parquet(buffer, index=False)
    figures = {suffix: render(chart(result), suffix) for suffix in ("svg", "html")}
    write_bytes(out / "results" / f"{NAME}.parquet", buffer.getvalue())
    for suffix, content in figures.items():
        write_bytes(out / "figures" / f"{NAME}.{suffix}", content)
    record = {
        "question": QUESTION,
        "arguments": dict(result.arguments),
        "findings": dict(result.findings),
        "versions": installed_versions((*PACKAGES, "shap", "lime", "captum")),
    }
    write_json(out / "results" / f"{NAME}.json", record)


def load(out: Path) -> Result | None:
    """A kept leaderboard, or None where there is none."""
    table, record = out / "results" / f"{NAME}.parquet", out / "results" / f"{NAME}.json"
    if not (table.exists() and record.exists()):
        return None
    content = read_json(record)
    return Result(pd.read_parquet(table), content["findings"], content["arguments"], "")


SHOWN = ("AUROC", "cosine to the language", "cosine to the model", "normalised AOPC")


def chart(result: Result, shown: Sequence[str] = SHOWN) -> ChartType:
    """A row of panels per language, one per measure: means over seeds with their intervals."""
    rows = []
    for name, table in result.table.groupby("language", sort=False):
        there = [measure for measure in shown if (table["measure"] == measure).any()]
        if there:
            part = explainers.panels(table[table["measure"].isin(there)], there)
            rows.append(part.properties(title=str(name)))
    figure: ChartType = alt.vconcat(*rows, spacing=24)
    return figure
