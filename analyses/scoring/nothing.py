"""The share of networks of which the lab claims something: of those in which there is nothing to
find, and of those in which there is.

OUT/null/LANGUAGE-KIND-sSEED/    each network: a run, with its answers
OUT/null/LANGUAGE-sSEED/         the network that is right, from which others are made
OUT/null/PROGRAM-planted-sSEED/  a network of known wiring
OUT/results/null-1/              all of it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.answers import (
    Answer,
    Answers,
    Progress,
    Question,
    arguments_of,
    fresh_answer,
    plain,
    question,
    quiet,
    save,
)
from analyses.charts.marks import points
from analyses.charts.theme import figures, share
from analyses.jobs.trained import trained
from analyses.jobs.workers import side_by_side
from analyses.needs import lack
from analyses.options.plants import LEARNED, SETTINGS, Score
from analyses.registry import usual
from analyses.scoring.taught import small_config
from analyses.track_record import NOTHING
from interp.statistics import brackets, wilson
from models.base import LanguageModel
from models.config import TrainConfig
from models.errors import UserError
from models.plants.plant import plant, write
from models.runs.files import write_bytes
from models.runs.run import Run

NAME, FOLDER = "null", "null"
ASKS = "How often does each question claim something of networks that have nothing to find?"
STEPS, LONGEST, LINES = 600, 8, 400
FALSE = 0.05
"""The share of false claims at which right claims are told."""
CLAIMED = ("holds", "fragile")


def _one_step(run: Run) -> LanguageModel:
    return trained(_beside(run, "one-step-training"), replace(run.config, steps=1)).model()


def _coin(run: Run) -> LanguageModel:
    """The network after as many steps on lines whose labels were drawn by a coin."""
    rng = np.random.default_rng([0xC01, run.config.seed])
    symbols = run.language.vocabulary.symbols
    lines = {
        tuple(rng.choice(symbols, size)): ("no", "yes")[rng.integers(2)]
        for size in rng.integers(1, LONGEST + 1, LINES)
    }
    file = _beside(run, "coin-lines").with_suffix(".tsv")
    text = "".join(f"{label}\t{' '.join(line)}\n" for line, label in sorted(lines.items()))
    write_bytes(file, text.encode(), once=True)
    config = replace(run.config, language=file.stem)
    return trained(_beside(run, "coin-training"), config, file).model()


def _another(run: Run) -> LanguageModel:
    """The network that is right about the next language of the list."""
    at = LEARNED.index(run.config.language) + 1
    config = _config(LEARNED[at % len(LEARNED)], run.config.seed)
    return trained(run.path.parent / f"{config.language}-s{config.seed}", config).model()


def _permuted(run: Run) -> LanguageModel:
    """The network that is right, which reads each symbol as the next one."""
    model = run.model()
    weight = model.get_submodule("embed").weight
    first = len(run.language.vocabulary) - len(run.language.vocabulary.symbols)
    with torch.no_grad():
        weight[first:] = weight[first:].roll(1, dims=0)  # type: ignore[operator, index]
    return model


NULL: dict[str, Callable[[Run], LanguageModel]] = {
    "before training": Run.untrained,
    "one step": _one_step,
    "labels by coin": _coin,
    "another language": _another,
    "symbols permuted": _permuted,
}
"""Networks in which nothing is to be found of a language, each made from one that is right."""
RIGHT, PLANTED = "right", "planted"
TRUTH = {RIGHT: "right answers", PLANTED: "known wiring"}
"""The truth about networks of a kind: trained ones that are right, and those of known wiring."""


def _beside(run: Run, name: str) -> Path:
    return run.path.parent / f"{run.config.language}-{name}-s{run.config.seed}"


def _config(language: str, seed: int) -> TrainConfig:
    return small_config(language, seed, steps=STEPS, max_n=LONGEST)


def null(options: Score, progress: Progress = quiet) -> Answer:
    """One row per network and question: of the asked seeds of each kind, and of twice as many
    trained networks that are right.

    Columns: run, truth (``NOTHING``, or of ``TRUTH``), kind (of ``NULL``, or "right" or "planted"),
    language (of a planted network its program), setting (what hides it, of ``SETTINGS``; "" of
    others), seed, question, grade, claimed (whether the lab
    claims anything), alone (whether a claim beats its controls, whatever the network knows), ahead
    (by how many standard errors the surest one does; NaN without controls or interval), says (the
    answer in short), alone says (the first claim that beats its controls).
    """
    names = [question(name).name for name in options.questions or usual()]
    first, last = options.first_seed, options.first_seed + options.seeds
    keys = [
        *product(LEARNED, (RIGHT, *NULL), range(first, last)),
        *product(LEARNED, (RIGHT,), range(last, last + options.seeds)),
        *product(options.programs, (PLANTED,), range(first, last)),
    ]
    jobs = {key: (*key, tuple(names), (options.out / FOLDER).absolute()) for key in keys}
    progress(0, len(jobs), "the first network")
    tables = {}
    for key, table in side_by_side(_answers_of, jobs, options.workers, options.scheduler):
        tables[key] = table
        progress(len(tables), len(jobs), f"{key[0]}, {key[1]}, seed {key[2]}")
    table = pd.concat([tables[key] for key in jobs], ignore_index=True)
    summary = _summed_up(table)
    arguments = {"questions": names, "seeds": options.seeds, "first_seed": options.first_seed}
    findings = {"scores": summary.to_dict("records")}
    result = Answer(table, " ".join(_sentences(summary)), plain(findings), arguments)
    return save(options.out, NAME, ASKS, result, _chart(summary))


def _network(language: str, kind: str, seed: int, out: Path) -> Run:
    path = out / f"{language}-{kind.replace(' ', '-')}-s{seed}"
    if path.exists():
        return Run(path)
    if kind == PLANTED:
        return write(plant(language, SETTINGS[_setting(kind, seed)], seed), path)
    config = _config(language, seed)
    run = trained(out / f"{language}-s{seed}", config)
    return run if kind == RIGHT else Run.create(path, config, model=NULL[kind](run))


def _setting(kind: str, seed: int) -> str:
    """What hides a planted network: the settings take turns."""
    return list(SETTINGS)[seed % len(SETTINGS)] if kind == PLANTED else ""


def _answers_of(
    language: str, kind: str, seed: int, names: tuple[str, ...], out: Path
) -> pd.DataFrame:
    """All answers about one network, which is made if need be."""
    run = _network(language, kind, seed, out)
    rows = []
    for name in names:
        if (reply := _answered(run, question(name))) is None:
            continue
        shown = [claim for claim in reply.claims if claim.grade in CLAIMED]
        ahead = [claim.ahead for claim in reply.claims if np.isfinite(claim.ahead)]
        knows = reply.knowledge is None or reply.knowledge.is_shown
        rows.append(
            {
                "run": run.name,
                "truth": TRUTH.get(kind, NOTHING),
                "kind": kind,
                "language": language,
                "setting": _setting(kind, seed),
                "seed": seed,
                "question": name,
                "grade": reply.verdict.grade,
                "claimed": knows and bool(shown),
                "alone": bool(shown),
                "ahead": max(ahead, default=np.nan),
                "says": reply.verdict.short,
                "alone says": shown[0].short if shown else "",
            }
        )
    return pd.DataFrame(rows)


def _answered(run: Run, about: Question[Any]) -> Answer | None:
    """The answer, kept without pictures; None where there is nothing to ask of the network."""
    options = about.brief or about.options()
    kept = Answers.of(run, about.name).asked(arguments_of(options))
    if kept is not None or lack(run, about.needs):
        return kept
    try:
        fresh = fresh_answer(run, about, options)
    except UserError:
        return None
    return save(run.path, about.name, about.asks, fresh, None)


def _summed_up(table: pd.DataFrame) -> pd.DataFrame:
    """One row per question, group of networks (a truth, or a kind that has nothing to find) and
    count: what the lab claims, and what the claims alone would say.

    Columns: question, networks (the group), of ("claimed" or "alone"), share, low, high (Wilson),
    count, and power (where there is something to find: the share claimed at the threshold that
    ``FALSE`` of the networks with nothing to find pass).
    """
    rows = []
    for name, part in table.groupby("question", sort=False):
        null = part["truth"] == NOTHING
        bar = part.loc[null, "ahead"].fillna(-np.inf).quantile(1 - FALSE, "higher")
        groups = [*part.groupby("truth", sort=False), *part[null].groupby("kind", sort=False)]
        for (group, some), of in product(groups, ("claimed", "alone")):
            hits, count = int(some[of].sum()), len(some)
            low, high = wilson(hits, count)
            power = float((some["ahead"] > bar).mean()) if group in TRUTH.values() else np.nan
            about = {"question": name, "networks": group, "of": of, "share": hits / count}
            rows.append(about | {"low": low, "high": high, "count": count, "power": power})
    return pd.DataFrame(rows)


def of_truths(summary: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``_summed_up`` of all networks with the same truth."""
    return summary[summary["networks"].isin([NOTHING, *TRUTH.values()])]


def _sentences(summary: pd.DataFrame) -> Iterator[str]:
    """A sentence per question."""
    claimed = of_truths(summary[summary["of"] == "claimed"])
    for name, rows in claimed.groupby("question", sort=False):
        parts = [
            f"{row.share:.0%}{brackets(row.low, row.high, '.0%')} of {row.count} networks with "
            f"{row.networks}"
            for row in rows.to_records()
        ]
        yield f"{name} claims something of {' and of '.join(parts)}."


def _chart(summary: pd.DataFrame) -> ChartType:
    """The share of networks of which something is claimed, by question."""
    x = share(alt.X, "share", "networks of which something is claimed")
    y = alt.Y("question:N", sort=None, title=None)
    tips = ["question", "networks", *figures("share", "low", "high"), "count"]
    color = alt.Color("networks:N", title=None).legend(orient="top")
    marks = points(of_truths(summary), x, y, tips, color, step=30, yOffset="networks:N")
    return marks.properties(width=280).facet(column=alt.Column("of:N", title=None))
