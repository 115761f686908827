"""How far beyond the training window is the model right? Exactness and recognition by word length,
beside the untrained model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import altair as alt
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Answer, Progress, Question, numbers, quiet
from analyses.charts.theme import CHOSEN, QUIET, TRAINED, figures
from analyses.options.questions import Accuracy as Options
from analyses.registry import BUILT_IN
from analyses.script import script
from interp.statistics import wilson
from models.config import MOST_PAIRS
from models.errors import UserError
from models.runs.run import Run
from models.training.evaluation import evaluate


def chosen_lengths(run: Run, options: Options) -> Sequence[int]:
    """The word lengths asked for."""
    language = run.language
    if options.lengths is not None:
        return options.range()
    max_n = 2 * run.config.max_n if options.max_n is None else options.max_n
    sizes = [language.length_of(n) for n in range(1, max_n + 1)]
    known = set(language.lengths(max_n))
    return [length for length in sizes if length in known]


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Answer:
    """One row per model (trained, untrained) and length.

    Columns: model, length, n (missing where no size has this length), count, exact (missing where
    it is not defined), recognition, members and others (the share recognised of each; missing where
    there is none), and the 95% Wilson interval of recognition, low and high.
    """
    lengths = chosen_lengths(run, options)
    if (longest := max(lengths, default=0)) ** 2 * options.count > MOST_PAIRS:
        fits = MOST_PAIRS // longest**2
        raise UserError(
            f"{options.count} words of {longest} symbols are too many to read at once: choose "
            + (f"a --count of at most {fits}, or shorter words" if fits else "shorter words")
        )
    model, digest = run.model_and_hash()
    rows: list[dict[str, Any]] = []
    for name, judged in (("trained", model), ("untrained", run.untrained())):
        scores = evaluate(judged, run.language, run.objective, lengths, options.count, options.seed)
        for score in scores:
            low, high = wilson(round(score.recognition * score.count), score.count)
            rows.append({"model": name, **asdict(score), "low": low, "high": high})
            progress(len(rows), 2 * len(lengths), f"{name}, length {score.length}")
    if not rows:
        raise UserError(f"{run.language.name} has no test words of these lengths: choose others")
    shares = dict.fromkeys(("exact", "members", "others"), "Float64")
    table = pd.DataFrame(rows).astype({"n": "Int64", **shares})
    return Answer(table, *findings(run, table), asdict(options), digest)


def findings(run: Run, table: pd.DataFrame) -> tuple[str, dict[str, Any]]:
    """How far the model is exact, and where recognition is lowest: in words, and as values."""
    trained = table[table["model"] == "trained"]
    exact = trained.dropna(subset=["exact"])
    window = run.config.max_n
    reach = exact_to(trained)
    if reach is not None:
        sentence = f"Exact on every size from 1 to {reach}" if reach else "Not exact even at size 1"
        sentence += f" (trained on 1 to {window}, tested to {int(exact['n'].max())})"
    else:
        share, words = right(trained, "recognition"), int(trained["count"].sum())
        sentence = f"{share:.2%} of {words} test words recognised"
    worst = trained.loc[trained["recognition"].idxmin()]
    sentence += (
        f"; recognition is lowest at length {int(worst['length'])}: {worst['recognition']:.1%} of "
        f"{int(worst['count'])} words [{worst['low']:.1%}, {worst['high']:.1%}]."
    )
    return sentence, {"exact_to": reach, "window": window}


def exact_to(rows: pd.DataFrame) -> int | None:
    """The size up to which every size tested is exact; None where exactness is not defined."""
    exact = rows.dropna(subset=["exact"])
    if exact.empty:
        return None
    failed = exact[exact["exact"] < 1]
    return int(exact["n"].max() if failed.empty else failed["n"].min() - 1)


def right(rows: pd.DataFrame, measure: str) -> float:
    """The share of words that is right, over all lengths; NaN where no length has the measure."""
    rows = rows.dropna(subset=[measure])
    words = int(rows["count"].sum())
    return float((rows[measure] * rows["count"]).sum() / words) if words else float("nan")


MEASURES = {
    "exact": "exact",
    "recognition": "recognition",
    "members": "members recognised",
    "others": "others recognised",
}


def headline(result: Answer) -> pd.DataFrame:
    """The numbers that are compared over seeds: variable (the model), of, value.

    "exact to size" is at most the largest size tested, which "tested to size" gives.
    """
    window, table = result.findings["window"], result.table
    size = table["n"].fillna(table["length"])
    parts = {
        "in the window": size <= window,
        "beyond it to twice": (size > window) & (size <= 2 * window),
        "beyond twice": size > 2 * window,
    }
    rows: list[tuple[str, str, float | None]] = []
    for model in ("trained", "untrained"):
        own = table["model"] == model
        reach = exact_to(table[own])
        rows.append((model, "exact to size", reach))
        rows.append((model, "tested to size", None if reach is None else table[own]["n"].max()))
        rows += [
            (model, f"{said}, {where}", right(table[own & part], measure))
            for measure, said in MEASURES.items()
            if measure in table  # older answers do not tell members from others
            for where, part in parts.items()
        ]
    return numbers(rows)


def as_json(run: Run, result: Answer) -> dict[str, Any]:
    """The answer in the shape that `lab evaluate --json` prints."""
    trained = result.table[result.table["model"] == "trained"]
    keys = ["length", "n", "count", "exact", "recognition"]
    records = trained[keys].astype(object).where(trained[keys].notna(), None).to_dict("records")
    return {"language": run.language.name, "by_length": records}


def chart(result: Answer) -> ChartType:
    """Curves by length; a dashed line marks the end of the training window."""
    long = result.table.melt(
        ["model", "length", "n", "low", "high"], ["exact", "recognition"], "measure"
    )
    long["value"] = pd.to_numeric(long["value"])
    long["curve"] = long["measure"] + ", " + long["model"]
    base = alt.Chart(long.dropna(subset=["value"]))
    x = alt.X("length:Q", title="word length (symbols)").scale(nice=False)
    colour = (
        alt.Color("curve:N", title=None)
        .scale(
            domain=[
                "exact, trained",
                "recognition, trained",
                "exact, untrained",
                "recognition, untrained",
            ],
            range=[TRAINED, CHOSEN, "#9db8c4", "#e8cdb9"],
        )
        .legend(orient="top", columns=2)
    )
    lines = base.mark_line(point=alt.OverlayMarkDef(size=14)).encode(
        x=x,
        y=alt.Y("value:Q", title="share of words").scale(domain=[0, 1]),
        color=colour,
        tooltip=["curve", "length", "n", *figures("value")],
    )
    band = (
        base.transform_filter((alt.datum.measure == "recognition") & (alt.datum.model == "trained"))
        .mark_area(opacity=0.18, color=CHOSEN)
        .encode(x=x, y="low:Q", y2="high:Q")
    )
    trained = result.table[result.table["model"] == "trained"]
    inside = trained[trained["n"].fillna(trained["length"]) <= result.findings["window"]]
    edge = float(inside["length"].max()) if len(inside) else 0.0
    window = alt.Chart(pd.DataFrame({"edge": [edge], "label": ["training window"]}))
    rule = window.mark_rule(strokeDash=[4, 4], color=QUIET).encode(x="edge:Q")
    label = window.mark_text(align="right", dx=-5, y=10, color=QUIET).encode(
        x="edge:Q", text="label:N"
    )
    return (band + lines + rule + label).properties(width=560, height=260)


def training_chart(metrics: Sequence[Mapping[str, Any]]) -> ChartType:
    """Loss, and the shares on the training window, over the steps."""
    table = pd.DataFrame(metrics)
    x = alt.X("step:Q", title="training step")
    loss = (
        alt.Chart(table.melt("step", ["loss", "validation_loss"], "curve"))
        .mark_line()
        .encode(
            x=x,
            y=alt.Y("value:Q", title="loss (nats)").scale(type="log"),
            color=alt.Color("curve:N", title=None).legend(orient="top"),
            tooltip=["curve", "step", alt.Tooltip("value:Q", format=".2e")],
        )
        .properties(width=560, height=140)
    )
    share = (
        alt.Chart(table.melt("step", ["exact", "recognition"], "curve"))
        .mark_line(point=True)
        .encode(
            x=x,
            y=alt.Y("value:Q", title="share, training window").scale(domain=[0, 1]),
            color=alt.Color("curve:N", title=None).legend(orient="top"),
            tooltip=["curve", "step", *figures("value")],
        )
        .properties(width=560, height=140)
    )
    return (loss & share).resolve_scale(color="independent")


QUESTION = Question(
    "accuracy",
    BUILT_IN["accuracy"],
    Options,
    analyse,
    headline,
    chart,
)

if __name__ == "__main__":
    raise SystemExit(script(QUESTION))
