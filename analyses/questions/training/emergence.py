"""When does a variable become readable? The same probe along the checkpoints, beside the training.

A variable that is readable before the model can do the task may be a gift of the architecture. One
that becomes readable while the task is learned may belong to what is learned. Some words fit the
probes, others choose the site by the last checkpoint, and others are scored.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import reduce
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Planned, Progress, Question, quiet
from analyses.charts.theme import QUIET, TRAINED, figures
from analyses.options.inside import Probing
from analyses.options.training import Emergence as Options
from analyses.questions.inside.probing import NUISANCE, TOO_FEW, examples
from analyses.registry import BUILT_IN
from analyses.script import script
from interp.probing.linear import Kind
from interp.probing.probes import probe_sites
from models.errors import UserError
from models.languages import Sample
from models.runs.run import Run
from models.training.evaluation import balanced_words, judge

MOST: dict[Kind, int] = {"count": 2_000, "category": 1_000}
"""The most positions that fit a probe of a checkpoint, and the most that score it."""
THERE = 0.9
"""The share of its last value from which on a score counts as reached."""


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per checkpoint and number.

    Columns: step, kind ("probe", "loss", "exact", "recognition"), target and site (of a probe),
    length (of exact and recognition), metric, choice (a probe's score on the words that choose
    sites), value. The loss is that of training, on fresh words; exact and recognition are shares of
    the words of a length.

    Raises:
        UserError: the language has no hidden variables that are known.
    """
    probed, steps = Probing(options.words, options.seed), run.steps()
    language, objective = run.language, run.objective
    lengths = language.lengths(run.config.max_n)
    tests = (balanced_words(language, length, options.count, options.seed) for length in lengths)
    sample = reduce(Sample.concatenate, [words for words in tests if words is not None])
    parts = list[pd.DataFrame]()
    for done, step in enumerate(steps):
        progress(done, len(steps), f"checkpoint {step}")
        model = run.model(step)
        read = examples(run, model, probed, keep=False)
        state = {name: t for name, t in read.targets.items() if name not in NUISANCE}
        scores = probe_sites(
            read.sites, state, read.fit, options.seed, most=MOST, choose=read.choose
        )
        if scores.empty:
            raise UserError(TOO_FEW)
        parts.append(scores.rename(columns={"score": "value"}).assign(step=step, kind="probe"))
        exact, right, loss = judge(model, language, sample, objective)
        length = sample.words.lengths
        parts.append(pd.DataFrame([{"step": step, "kind": "loss", "value": loss}]))
        found = {"recognition": right, "exact": np.where(sample.labels, exact, np.nan)}
        for kind, values in found.items():
            if kind == "recognition" or not objective.verdict_alone:
                by = pd.Series(values.astype(float)).groupby(length).mean().dropna()
                rows = pd.DataFrame({"length": by.index, "value": by.to_numpy()})
                parts.append(rows.assign(step=step, kind=kind))
    progress(len(steps), len(steps), "emergence")
    columns = ["step", "kind", "target", "site", "length", "metric", "choice", "value"]
    table = pd.concat(parts, ignore_index=True)[columns].astype({"length": "Int64"})
    return Answer(table, *findings(table), asdict(options), run.model_hash())


def by_step(table: pd.DataFrame) -> pd.DataFrame:
    """The curves: step, curve, target, value; of a variable at the site that is best at the last
    step by the words that choose."""
    probes = table[table["kind"] == "probe"]
    last = probes[probes["step"] == probes["step"].max()]
    best = last.loc[last.groupby("target", sort=False)["choice"].idxmax()]
    chosen = probes.merge(best[["target", "site"]])
    curves = [chosen.assign(curve=chosen["target"] + " (" + chosen["site"] + ")")]
    for kind in ("exact", "recognition"):
        rows = table[table["kind"] == kind]
        curves.append(rows.groupby("step", as_index=False)["value"].mean().assign(curve=kind))
    return pd.concat(curves, ignore_index=True)[["step", "curve", "target", "value"]]


def reached(curve: pd.DataFrame) -> int | None:
    """The first step from which on the value is always at least ``THERE`` times the last one.

    None if the last value is no better than the first: nothing was reached.
    """
    rows = curve.sort_values("step")
    if not rows["value"].iloc[-1] > max(0.0, rows["value"].iloc[0]):
        return None
    below = rows.loc[rows["value"] < THERE * rows["value"].iloc[-1], "step"]
    return int(
        rows.loc[rows["step"] > below.max(), "step"].min() if len(below) else rows["step"].min()
    )


def findings(table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """For each curve the step from which on it is reached, and its first and last value."""
    curves = by_step(table)
    found: dict[str, dict[str, Any]] = {
        str(name): {
            "there": reached(rows),
            "first": float(rows["value"].iloc[0]),
            "last": float(rows["value"].iloc[-1]),
        }
        for name, rows in curves.groupby("curve", sort=False)
    }
    task = "exact" if "exact" in found else "recognition"
    names = curves.dropna(subset=["target"]).drop_duplicates("curve")
    main = next(
        (row.curve for row in names.itertuples() if "-" in row.target), names["curve"].iloc[0]
    )
    there, of = found[task], found[main]
    what = "whole words" if task == "exact" else "verdicts"
    sentence = (
        f"A probe reads {main} with a score of {of['first']:.3f} before the first step and of "
        f"{of['last']:.3f} after the last. {_when(of['there'], 'the last score')}. In the end "
        f"{there['last']:.1%} of the {what} are right"
    )
    if there["last"] > 0:
        sentence += f". {_when(there['there'], 'that')}"
    sentence += "."
    return sentence, {"main": main, "task": task, "curves": found}


def _when(step: int | None, what: str) -> str:
    if step is None:
        return "That is no more than before the first step"
    return f"{THERE:.0%} of {what} is reached from step {step} on"


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable, of, value."""
    labels = {"there": "there from step", "first": "before the first step", "last": "in the end"}
    rows = [
        (name.partition(" (")[0], label, about[key])
        for name, about in result.findings["curves"].items()
        for key, label in labels.items()
    ]
    return pd.DataFrame(rows, columns=["variable", "of", "value"])


def chart(result: Answer) -> ChartType:
    """A panel per variable: its score along the training, and dashed what the model itself gets
    right. The last panel is the loss."""
    curves = by_step(result.table)
    task = curves[curves["curve"] == result.findings["task"]]
    steps = sorted(curves["step"].unique().tolist())
    named = sorted({steps[i * (len(steps) - 1) // 4] for i in range(5)})
    x = alt.X("step:Q", title="training step").scale(type="symlog", nice=False).axis(values=named)
    y = alt.Y("value:Q", title=None).scale(domain=[0, 1], clamp=True).axis(tickCount=3)
    tips: list[str | alt.Tooltip] = ["step", "curve", *figures("value")]
    own = alt.Chart(task).encode(x=x, y=y, tooltip=tips).mark_line(color=QUIET, strokeDash=[5, 3])
    panels: list[ChartType] = []
    variables = curves.dropna(subset=["target"])
    for name, rows in variables.groupby("curve", sort=False):
        base = alt.Chart(rows).encode(x=x, y=y, tooltip=tips)
        line = base.mark_line(color=TRAINED, point=alt.OverlayMarkDef(size=20, color=TRAINED))
        panels.append((own + line).properties(title=str(name), width=250, height=110))
    loss = alt.Chart(result.table[result.table["kind"] == "loss"]).encode(
        x=x,
        y=alt.Y("value:Q", title=None).scale(type="symlog", constant=0.001).axis(tickCount=3),
        tooltip=["step", *figures("value", digits=4)],
    )
    line = loss.mark_line(point=alt.OverlayMarkDef(size=20, color=QUIET), color=QUIET)
    panels.append(line.properties(title="loss on fresh words", width=250, height=110))
    return alt.concat(*panels, columns=3).configure_title(fontSize=13, anchor="start")


QUESTION = Question(
    "emergence",
    BUILT_IN["emergence"].asks,
    Options,
    analyse,
    headline,
    chart,
    brief=Options(words=100, count=4),
    planned=(Planned("in the end", "before the first step"),),
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
