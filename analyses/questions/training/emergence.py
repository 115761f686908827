"""When does a variable become readable? The same probe along the checkpoints, beside the training.

A variable that is readable before the model can do the task may be a gift of the architecture. One
that becomes readable while the task is learned may belong to what is learned. Some words fit the
probes, others choose the site by the last checkpoint, and others are scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Planned, Progress, of_answer, quiet
from analyses.charts.marks import curve, panels
from analyses.charts.theme import QUIET, TRAINED, figures
from analyses.claims import COUNTS, Claim
from analyses.options.inside import Probing
from analyses.options.training import Emergence as Options
from analyses.questions.inside.probing import NUISANCE, TOO_FEW, examples
from interp.probing.linear import Kind
from interp.probing.probes import probe_sites
from interp.statistics import weighted_sum
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
    sites), value, and of a probe low, high (95% bootstrap over the scored words) and n_test (how
    many prefixes are scored). The loss is that of training, on fresh words; exact and recognition
    are shares of the words of a length.

    Raises:
        UserError: the language has no hidden variables that are known.
    """
    probed, steps = Probing(options.words, seed=options.seed), run.steps()
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
        shares = {"recognition": right, "exact": np.where(sample.labels, exact, np.nan)}
        for kind, values in shares.items():
            if kind == "recognition" or not objective.verdict_alone:
                by = pd.Series(values.astype(float)).groupby(length).mean().dropna()
                rows = pd.DataFrame({"length": by.index, "value": by.to_numpy()})
                parts.append(rows.assign(step=step, kind=kind))
    progress(len(steps), len(steps), "emergence")
    columns = ["step", "kind", "target", "site", "length", "metric", "choice", "value"]
    table = pd.concat(parts, ignore_index=True)[[*columns, "low", "high", "n_test"]]
    table = table.astype({"length": "Int64"})
    return Answer(table, findings=_findings(table))


def _best_at(table: pd.DataFrame, step: int) -> pd.DataFrame:
    """The probes of a step, each target at the site that is best by the words that choose."""
    probes = table[(table["kind"] == "probe") & (table["step"] == step)]
    return probes.loc[probes.groupby("target", sort=False)["choice"].idxmax()]


def _by_step(table: pd.DataFrame) -> pd.DataFrame:
    """The curves: step, curve, target, value; of a variable at the site that is best at the last
    step."""
    probes = table[table["kind"] == "probe"]
    chosen = probes.merge(_best_at(table, table["step"].max())[["target", "site"]])
    curves = [chosen.assign(curve=chosen["target"] + " (" + chosen["site"] + ")")]
    for kind in ("exact", "recognition"):
        rows = table[table["kind"] == kind]
        curves.append(rows.groupby("step", as_index=False)["value"].mean().assign(curve=kind))
    return pd.concat(curves, ignore_index=True)[["step", "curve", "target", "value"]]


def _reached(curve: pd.DataFrame) -> int | None:
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


def _findings(table: pd.DataFrame) -> dict[str, Any]:
    """For each curve the step from which on it is reached, and its first and last value.

    The first value of a variable is at its own best site.
    """
    curves = _by_step(table)
    before = _best_at(table, table["step"].min()).set_index("target")["value"]
    by_curve: dict[str, dict[str, Any]] = {
        str(name): {
            "there": _reached(rows),
            "first": float(before.get(rows["target"].iloc[0], rows["value"].iloc[0])),
            "last": float(rows["value"].iloc[-1]),
        }
        for name, rows in curves.groupby("curve", sort=False)
    }
    names = curves.dropna(subset=["target"]).drop_duplicates("curve")
    main = next(
        (row.curve for row in names.itertuples() if "-" in row.target), names["curve"].iloc[0]
    )
    task = "exact" if "exact" in by_curve else "recognition"
    return {"main": main, "task": task, "curves": by_curve}


def _claims(answer: Answer) -> list[Claim]:
    """The gain by training in the score of a probe of the main variable, at the site that other
    words chose. Before training it is read there and at a site that they chose then: the better
    one counts."""
    facts, table = answer.findings, answer.table
    target = facts["main"].partition(" (")[0]
    early, late = table["step"].min(), table["step"].max()
    best, last = (_best_at(table, step).set_index("target").loc[target] for step in (early, late))
    there = (table["step"] == early) & (table["target"] == target)
    same = table[there & (table["site"] == last["site"])].iloc[0]
    first = max(best, same, key=lambda row: row["value"])
    sides = (tuple(row[["value", "low", "high"]]) for row in (last, first))
    task, what = facts["curves"][facts["task"]], TASKS[facts["task"]]
    return [
        Claim(
            f"Training raised the {last['metric']} of a linear probe of {target} by {{}}",
            *weighted_sum(*zip((1.0, -1.0), sides, strict=True)),
            last["n_test"],
            "different prefixes, which neither fitted a probe nor chose its site",
            "bootstraps over words, before and after, put together",
            COUNTS,
            "+.3f",
            notes=[
                f"It was {first['value']:.3f} at {first['site']} before the first step, and is "
                f"{last['value']:.3f} at {last['site']}, {_when(facts['curves'][facts['main']])}. "
                f"{task['last']:.1%} of the {what} are right, {_when(task)}. One training gives no "
                "interval of steps."
            ],
        )
    ]


TASKS = {"exact": "whole words", "recognition": "verdicts"}
"""The tasks of a model, in words."""


def _when(curve: Mapping[str, Any]) -> str:
    if curve["there"] is None:
        return "no more than before the first step"
    return f"{THERE:.0%} of that from step {curve['there']} on"


def _headline(result: Answer) -> pd.DataFrame:
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
    curves = _by_step(result.table)
    task = curves[curves["curve"] == result.findings["task"]]
    steps = sorted(curves["step"].unique().tolist())
    marked = sorted({steps[i * (len(steps) - 1) // 4] for i in range(5)})
    x = alt.X("step:Q", title="training step").scale(type="symlog", nice=False).axis(values=marked)
    y = alt.Y("value:Q", title=None).scale(domain=[0, 1], clamp=True).axis(tickCount=3)
    tips: list[str | alt.Tooltip] = ["step", "curve", *figures("value")]
    line = alt.Chart(task).encode(x=x, y=y, tooltip=tips).mark_line(color=QUIET, strokeDash=[5, 3])
    drawn: dict[str, ChartType] = {
        str(name): line + curve(rows, x, y, tips, alt.value(TRAINED), ends=None, size=20)
        for name, rows in curves.dropna(subset=["target"]).groupby("curve", sort=False)
    }
    drawn["loss on fresh words"] = curve(
        result.table[result.table["kind"] == "loss"],
        x,
        alt.Y("value:Q", title=None).scale(type="symlog", constant=0.001).axis(tickCount=3),
        ["step", *figures("value", digits=4)],
        alt.value(QUIET),
        ends=None,
        size=20,
    )
    sized = ((name, panel.properties(width=250, height=110)) for name, panel in drawn.items())
    return panels(sized, columns=3).configure_title(fontSize=13, anchor="start")


QUESTION = of_answer(
    "emergence",
    Options,
    analyse,
    _headline,
    chart,
    _claims,
    brief=Options(words=100, count=4),
    planned=(Planned("in the end", "before the first step"),),
)
