"""Which kind of model holds how far? Many runs with the same budget, in one table.

A study names its variants; every variant is trained on every language with every seed as a normal
run, and judged at sizes up to ten times the training window. OUT keeps the runs, and beside them

    OUT/results/STUDY.parquet     a row per variant, language, seed and length
    OUT/results/STUDY.json        what was asked, and the headline
    OUT/figures/STUDY.{svg,html}

A run that is finished is not trained again, so a study that broke off goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import comb
from pathlib import Path
from typing import Any, Literal, get_args

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType
from tyro.conf import Positional

from analyses.answers import Answer, Progress, plain, quiet, save
from analyses.charts.theme import QUIET, figures
from analyses.jobs.trained import trained
from analyses.jobs.workers import side_by_side
from interp.statistics import all_pairs, pairs_needed, t_interval
from models.config import ModelConfig, TrainConfig
from models.errors import UserError
from models.languages import language
from models.objectives import objective
from models.runs.files import read_json, write_json
from models.runs.run import run_name
from models.training.evaluation import evaluate
from models.training.recipes import recipe

Name = Literal["positions", "encoders", "norms", "rivals"]
LEVEL = 0.05
MULTIPLES = (1, 2, 4, 10)
"""How far the words reach, in training windows."""

ENCODER = ModelConfig(mask="bidirectional")
POSITIONS = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5")
SHIFTED = ("learned", "sinusoidal")


@dataclass(frozen=True)
class Study:
    """A question, the variants that answer it, and the languages to ask on.

    Attributes:
        question: in one sentence.
        variants: by name, what is asked of the recipe's model.
        languages: the default ones.
    """

    question: str
    variants: Mapping[str, Mapping[str, Any]]
    languages: tuple[str, ...]


STUDIES: dict[Name, Study] = {
    "positions": Study(
        "Which kind of positions counts how far beyond the training window?",
        {p: {"positions": p} for p in POSITIONS}
        | {f"{p}, shifted": {"positions": p, "shifted": True} for p in SHIFTED},
        ("anbn", "anbncn"),
    ),
    "encoders": Study(
        "Which kind of positions lets an encoder recognise words by their order?",
        {p: {"mask": "bidirectional", "positions": p} for p in POSITIONS},
        ("dieren",),
    ),
    "norms": Study(
        "Which norm, and where, counts how far beyond the training window?",
        {
            f"{norm}, {placement}": {"norm": norm, "norm_placement": placement}
            for norm in ("layer", "rms")
            for placement in ("pre", "post", "sandwich")
        }
        | {"none": {"norm": "none"}},
        ("anbn", "anbncn"),
    ),
    "rivals": Study(
        "With the same budget, which architecture learns which language, and how far?",
        {a: {"architecture": a} for a in ("transformer", "lstm", "gru", "cnn")}
        | {f"{n}-gram": {"architecture": "ngram", "order": n} for n in range(1, 6)},
        ("anbn", "anbncn", "dyck2", "parity", "dyck1-1", "dieren"),
    ),
}


@dataclass(frozen=True)
class Compare:
    """Train every variant of a study on every language with every seed, and tabulate.

    Attributes:
        study: the question.
        languages: instead of the study's own.
        seeds: how many, from 0 on.
        steps: of every run, instead of its recipe's.
        count: words per length, half of them members where there are any.
        out: the folder of the runs and of the table.
        workers: processes side by side.
        scheduler: the address of a Dask scheduler, whose workers train instead.
    """

    study: Positional[Name]
    languages: tuple[str, ...] = ()
    seeds: int = 3
    steps: int | None = None
    count: int = 8
    out: Path = Path("runs/compare")
    workers: int = field(default_factory=lambda: min(4, os.cpu_count() or 1))
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.study not in get_args(Name):
            raise UserError(f"unknown study {self.study!r}: choose {', '.join(get_args(Name))}")
        for name in ("seeds", "count", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name} is {getattr(self, name)}: it must be at least 1")
        for name in self.languages:
            language(name)


def config_of(name: str, asked: Mapping[str, Any], seed: int, steps: int | None) -> TrainConfig:
    """The plain recipe of a language with a variant's changes."""
    changes = {key: value for key, value in asked.items() if key != "shifted"}
    base = recipe(name, ModelConfig(**changes), plain=True)
    config = replace(base, seed=seed, model=replace(base.model, **changes))
    if steps is not None:
        config = replace(config, steps=steps)
    if "shifted" in asked:  # every position of the longest test words is trained
        known = language(name)
        reach = known.length_of(MULTIPLES[-1] * config.max_n) - known.length_of(config.max_n)
        config = replace(config, max_offset=reach)
    return config


def sizes(window: int) -> list[int]:
    """All to twice the window, then every other one, from four times on every fifth."""
    near, middle, far = 2 * window, 4 * window, MULTIPLES[-1] * window
    return [*range(1, near + 1), *range(near + 2, middle + 1, 2), *range(middle + 5, far + 1, 5)]


def complete(path: Path, config: TrainConfig, count: int) -> list[dict[str, Any]]:
    """Trains the run if need be and judges it; a row per length. Kept in the run's folder."""
    run = trained(path, config)
    kept, asked = run.results / "lengths.json", {"count": count, "model_hash": run.model_hash()}
    if kept.exists() and (found := read_json(kept))["asked"] == asked:
        return list(found["rows"])
    known, model = run.language, run.model()
    lengths = [known.length_of(n) for n in sizes(config.max_n)]
    scores = evaluate(model, known, objective(config.objective), lengths, count)
    about = {
        "parameters": sum(tensor.numel() for tensor in model.state_dict().values()),
        "seconds": run.record["seconds"],
        "window": config.max_n,
    }
    rows = [asdict(score) | about for score in scores]
    write_json(kept, {"asked": asked, "rows": rows})
    return rows


def compare(asked: Compare, progress: Progress = quiet) -> Answer:
    """Runs a study. One row per variant, language, seed and length.

    Columns: variant, language, seed, length, n, band (the multiple of the window that the size lies
    within: 1, 2, 4, 10), count, exact (missing where the run was taught verdicts alone),
    recognition, parameters (numbers that are learned, the counts of an n-gram model among
    them), seconds (of training), window.
    """
    study = STUDIES[asked.study]
    configs = {
        (variant, name, seed): config_of(name, changes, seed, asked.steps)
        for name in asked.languages or study.languages
        for variant, changes in study.variants.items()
        for seed in range(asked.seeds)
    }
    jobs = {key: (asked.out / run_name(c), c, asked.count) for key, c in configs.items()}
    tables = []
    answers = side_by_side(complete, jobs, asked.workers, asked.scheduler)
    for done, (key, rows) in enumerate(answers):
        variant, name, seed = key
        tables.append(pd.DataFrame(rows).assign(variant=variant, language=name, seed=seed))
        progress(done + 1, len(jobs), f"{variant} on {name}, seed {seed}")
    table = pd.concat(tables, ignore_index=True)
    multiple = table["n"].fillna(table["length"]) / table["window"]
    table["band"] = [next(m for m in MULTIPLES if value <= m) for value in multiple]
    order = {key: index for index, key in enumerate(jobs)}
    keys = table[["variant", "language", "seed"]].itertuples(index=False, name=None)
    table = table.assign(rank=[order[key] for key in keys]).sort_values(
        ["rank", "length"], ignore_index=True
    )
    columns = ["variant", "language", "seed", "length", "n", "band", "count", "exact"]
    table = table[[*columns, "recognition", "parameters", "seconds", "window"]]
    table = table.astype({"n": "Int64", "exact": "Float64"})
    arguments: dict[str, Any] = {"study": asked.study, "seeds": asked.seeds, "steps": asked.steps}
    arguments |= {"languages": list(asked.languages or study.languages), "count": asked.count}
    result = Answer(table, *findings(table), arguments)
    save(asked.out, asked.study, study.question, result, chart(result))
    return result


def by_seed(table: pd.DataFrame) -> pd.DataFrame:
    """One row per language, variant, band and seed: the mean over sizes.

    Columns: language, variant, band, measure ("exact" where it is defined, else "recognition"),
    seed, value.
    """
    judged = table.assign(
        measure=table["exact"].isna().map({True: "recognition", False: "exact"}),
        value=table["exact"].fillna(table["recognition"]).astype(float),
    )
    # Within a run only one measure counts: exactness where the run has it at all.
    exact = judged.groupby(["language", "variant", "seed"])["measure"].transform(
        lambda measures: "exact" if (measures == "exact").any() else "recognition"
    )
    judged = judged[judged["measure"] == exact]
    keys = ["language", "variant", "band", "measure", "seed"]
    return judged.groupby(keys, sort=False)["value"].mean().reset_index()


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per language, variant and band: what happens on average and at the worst seed.

    Columns: language, variant, band, measure (as of ``by_seed``), value (mean over sizes, then over
    seeds), low and high (the worst and the best seed), seeds, mean_low and mean_high (95% interval
    of the mean, Student's t over seeds, cut off at 0 and 1; NaN of a single seed).
    """
    keys = ["language", "variant", "band", "measure"]
    grouped = by_seed(table).groupby(keys, sort=False)["value"]
    short = grouped.agg(value="mean", low="min", high="max", seeds="size").reset_index()
    ends = np.array([share_interval(values)[1:] for _, values in grouped])
    return short.assign(mean_low=ends[:, 0], mean_high=ends[:, 1])


def share_interval(shares: pd.Series) -> tuple[float, float, float]:
    """Mean over seeds of a share, low and high: Student's 95% interval, cut off at 0 and 1."""
    mean, low, high = t_interval(shares.to_numpy(dtype=np.float64))
    return mean, float(np.clip(low, 0, 1)), float(np.clip(high, 0, 1))


def beyond(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Per language what variants are ranked by: a row per seed, a column per variant.

    The share right beyond the window, mean over bands; over all of them if none is beyond.
    """
    grids = {}
    for name, rows in by_seed(table).groupby("language", sort=False):
        far = rows[rows["band"] > 1]
        grid = (far if len(far) else rows).pivot_table("value", "seed", "variant")
        grids[str(name)] = grid[list(dict.fromkeys(rows["variant"]))]
    return grids


def pairs(table: pd.DataFrame) -> pd.DataFrame:
    """Per language the variant that holds best beyond the window, beside every other one.

    Columns: language, best, other, difference (of the shares of ``beyond``, best less other), low,
    high (95%, Student's t over seeds), p (of the sign-flip test over seeds), wins (share of seeds
    in which the best one is ahead), pairs (seeds), corrected (p, by Holm's method for all pairs of
    the language's variants, since the seeds also choose which one is best).
    """
    found = []
    for name, grid in beyond(table).items():
        rows = all_pairs(grid)
        own = rows[rows["first"] == rows["first"].iloc[0]] if len(rows) else rows
        found.append(own.assign(language=name).rename(columns={"first": "best", "second": "other"}))
    rows = pd.concat(found, ignore_index=True)
    return rows[["language", *(column for column in rows.columns if column != "language")]]


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """The summary as people read it: a row per variant, a column per language and band."""
    short = summary(table)
    text = [
        f"{mean:.2f}" if low == high else f"{mean:.2f} [{low:.2f}, {high:.2f}]"
        for mean, low, high in short[["value", "low", "high"]].itertuples(index=False)
    ]
    short = short.assign(text=text, column=short["language"] + " x" + short["band"].astype(str))
    pivot = short.pivot(index="variant", columns="column", values="text")
    pivot = pivot.loc[table["variant"].unique(), short["column"].unique()]
    return pivot.reset_index().rename_axis(columns=None)


def versus(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The pairs as people read them: a table per language, under a title that names the best."""
    tables = {}
    for (name, best), rows in pairs(table).groupby(["language", "best"], sort=False):
        ends = [
            "" if row.pairs < 2 else f" [{row.low:.2f}, {row.high:.2f}]"
            for row in rows.itertuples()
        ]
        tables[f"{name}, beyond the window: {best} is ahead"] = pd.DataFrame(
            {
                "of": rows["other"].to_numpy(),
                "by [95%]": [
                    f"{gap:.2f}{end}" for gap, end in zip(rows["difference"], ends, strict=True)
                ],
                "p, corrected": rows["corrected"].to_numpy(),
            }
        )
    return tables


def findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """Per language the variant that holds best beyond the window, how many others the seeds tell
    it from, and those that fail inside it."""
    short, tested = summary(table), pairs(table)
    variants, seeds = table["variant"].nunique(), table["seed"].nunique()
    tests = comb(variants, 2)
    needed = pairs_needed(tests, LEVEL) if tests else 1
    said = []
    for name, grid in beyond(table).items():
        own = tested[tested["language"] == name]
        first = own["best"].iloc[0] if len(own) else grid.columns[0]
        drawn = own["difference"].abs() < 1e-9
        best = [first, *own["other"][drawn]]
        mean, low, high = share_interval(grid[first])
        spread = "" if seeds == 1 else f", 95% {low:.2f} to {high:.2f}"
        told = int((own["corrected"] <= LEVEL).sum())
        if len(own) and seeds >= needed:
            spread += f"; told from {told} of the {int((~drawn).sum())} others"
        sentence = f"{name}: {', '.join(best)} hold{'s' * (len(best) == 1)} best beyond the "
        sentence += f"window ({mean:.2f}{spread})"
        inside = short[(short["language"] == name) & (short["band"] == 1)].set_index("variant")
        failed = [variant for variant, share in inside["value"].items() if share < 0.99]
        if failed:
            sentence += f", inside it {', '.join(failed)} fail{'s' * (len(failed) == 1)}"
        said.append(sentence)
    text = "; ".join(said) + "."
    if seeds < needed:
        text += (
            f" By {seeds} seed{'s' * (seeds > 1)} the exact test tells no variants apart: "
            f"corrected for {tests} pairs, it needs {needed}."
        )
    kept = {
        name: rows.replace({np.nan: None}).to_dict("records")
        for name, rows in (("bands", short), ("pairs", tested))
    }
    return text, plain(kept)


def chart(result: Answer) -> ChartType:
    """A panel per language: share right by size in training windows, a line per variant and the
    range of its seeds."""
    table = result.table.assign(
        value=pd.to_numeric(result.table["exact"].fillna(result.table["recognition"])),
        multiple=pd.to_numeric(result.table["n"].fillna(result.table["length"]))
        / result.table["window"],
    )
    keys = ["language", "variant", "band"]
    by_seed = table.groupby([*keys, "seed"], sort=False)["value"].mean().reset_index()
    variants = list(dict.fromkeys(table["variant"]))
    base = alt.Chart(by_seed).encode(
        y=alt.Y("variant:N", sort=variants, title=None),
        yOffset=alt.YOffset("band:O"),
        color=alt.Color("band:O", title="up to ... windows").scale(scheme="viridis"),
    )
    bars = base.mark_bar().encode(
        x=alt.X("mean(value):Q", title="share right").scale(domain=[0, 1]),
        tooltip=["variant", "language", "band", alt.Tooltip("mean(value):Q", format=".3f")],
    )
    seeds = base.mark_tick(color=QUIET, thickness=1.5, size=6).encode(
        x="value:Q",
        color=alt.value(QUIET),
        tooltip=["variant", "language", "band", "seed", *figures("value")],
    )
    return (
        (bars + seeds)
        .properties(width=200, height=alt.Step(9))
        .facet(column=alt.Column("language:N", title=None, sort=_languages(table)))
    )


def _languages(table: pd.DataFrame) -> Sequence[str]:
    return list(dict.fromkeys(table["language"]))
