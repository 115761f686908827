"""Which heads matter? Ablation and direct logit attribution, beside the untrained model."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.results import Progress, Result, quiet
from analyses.words import WordTensors, sample_window
from interp.heads import ablate, direct_logit_attribution
from interp.metrics import logit_at
from interp.statistics import bootstrap_mean
from models.errors import UserError
from models.languages import END_ID, Vocabulary
from models.runs import Run
from models.transformer import HookedTransformer

QUESTION = "Which heads does the verdict need, and which write it?"


@dataclass(frozen=True)
class Options:
    """What to look at.

    Attributes:
        words: words of the training window, half members, half hard negatives.
        seed: of the words.
    """

    words: int = 200
    seed: int = 0


def refusal(run: Run) -> str | None:
    """Why there is nothing to ask of this run, in one line; None where there is."""
    architecture = run.config.model.architecture
    if architecture == "transformer":
        return None
    return f"{run.name} has no attention heads: it is of architecture {architecture}"


def analyse(run: Run, options: Options, progress: Progress = quiet) -> Result:
    """One row per model, measure and part.

    Columns: model (trained, untrained), measure, part ("L0H1", "embed", "L1 mlp", ...), layer and
    head (-1 where the part is no head), value, low, high (95% bootstrap interval over words).

    Measures: "accuracy lost, mean ablation" and "accuracy lost, zero ablation" (share of words
    whose right verdict becomes wrong, minus the reverse); "direct logit, members" and "direct
    logit, others" (what the part adds to END's logit at the last symbol; positive speaks for "in").
    """
    if reason := refusal(run):
        raise UserError(reason)
    sample = sample_window(run, options.words, options.seed)
    tensors = WordTensors.of(sample.words)
    model, digest = run.model_and_hash()
    tables = []
    for done, (name, viewed) in enumerate((("trained", model), ("untrained", run.untrained()))):
        progress(done, 2, f"heads, {name} model")
        assert isinstance(viewed, HookedTransformer)
        tables.append(_measures(viewed, tensors, sample.labels).assign(model=name))
    progress(2, 2, "heads")
    table = pd.concat(tables, ignore_index=True)
    table = table[["model", "measure", "part", "layer", "head", "value", "low", "high"]]
    return Result(table, findings(table), asdict(options), digest)


def _measures(model: HookedTransformer, words: WordTensors, labels: np.ndarray) -> pd.DataFrame:
    verdict_at = model.verdict_positions(words.last)
    metric = logit_at(END_ID, verdict_at)
    tables = []
    for method in ("mean", "zero"):
        ablated = ablate(model, words.tokens, words.mask, metric, method)
        truth = labels[ablated["word"]]
        lost = ((ablated["before"] > 0) == truth).astype(float) - ((ablated["after"] > 0) == truth)
        ablated["part"] = "L" + ablated["layer"].astype(str) + "H" + ablated["head"].astype(str)
        wide = ablated.assign(lost=lost).pivot(index="word", columns="part", values="lost")
        tables.append(_summary(wide, f"accuracy lost, {method} ablation"))
    direct = direct_logit_attribution(model, words.tokens, verdict_at, END_ID)
    wide = direct.pivot(index="word", columns="part", values="value")[direct["part"].unique()]
    for name, side in (("members", labels), ("others", ~labels)):
        if side.any():
            tables.append(_summary(wide[side], f"direct logit, {name}"))
    return pd.concat(tables, ignore_index=True)


def _summary(per_word: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Mean and interval of each part (column) over words (rows)."""
    value, low, high = bootstrap_mean(per_word.to_numpy())
    numbers = per_word.columns.str.extract(r"^L(\d+)H(\d+)$").apply(pd.to_numeric)
    numbers = numbers.fillna(-1).astype(int)
    return pd.DataFrame(
        {
            "measure": measure,
            "part": per_word.columns,
            "layer": numbers[0],
            "head": numbers[1],
            "value": value,
            "low": low,
            "high": high,
        }
    )


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """The heads whose loss is certain, and the costliest."""
    lost = table[
        (table["model"] == "trained") & (table["measure"] == "accuracy lost, mean ablation")
    ]
    order = lost.sort_values("value", ascending=False)
    most = order.iloc[0]
    needed = order[order["low"] > 0]["part"].tolist()
    summary = (
        f"Without {most['part']} (mean ablation) {most['value']:.1%} of the verdicts are lost "
        f"[{most['low']:.1%}, {most['high']:.1%}]; "
        f"{len(needed)} of {len(order)} heads are needed"
        + (f" ({', '.join(needed)})." if needed else ".")
    )
    return {"summary": summary, "needed": needed}


def chart(result: Result) -> ChartType:
    """Left what ablating each head costs, right what each part adds to END's logit."""
    table = result.table
    parts = list(dict.fromkeys(table["part"]))

    def bars(rows: pd.DataFrame, title: str, colours: list[str], by: str) -> ChartType:
        base = alt.Chart(rows).encode(
            y=alt.Y("part:N", sort=parts, title=None),
            yOffset=alt.YOffset(f"{by}:N", sort=list(dict.fromkeys(rows[by]))),
            tooltip=[
                "model",
                "measure",
                "part",
                *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("value", "low", "high")),
            ],
        )
        colour = alt.Color(f"{by}:N", title=None, sort=list(dict.fromkeys(rows[by])))
        colour = colour.scale(range=colours).legend(orient="top", columns=1)
        bar = base.mark_bar().encode(x=alt.X("value:Q", title=title), color=colour)
        rule = base.mark_rule(strokeWidth=1.5).encode(
            x="low:Q", x2="high:Q", color=alt.value("#777")
        )
        return (bar + rule).properties(width=280, height=alt.Step(11))

    lost = table[table["measure"] == "accuracy lost, mean ablation"]
    direct = table[(table["model"] == "trained") & table["measure"].str.startswith("direct")]
    return (
        bars(lost, "accuracy lost without the head", ["#0b6e99", "#b9c4ca"], "model")
        | bars(direct, "added to END's logit", ["#2a9d5c", "#c8553d"], "measure")
    ).resolve_scale(color="independent", y="independent")


def pattern_chart(table: pd.DataFrame, vocabulary: Vocabulary, ids: list[int]) -> ChartType:
    """Attention of every head on one word (``interp.heads.patterns``): query down, key across."""
    tokens = [f"{i} {token}" for i, token in enumerate(vocabulary.decode(ids))]
    named = table.assign(
        query=[tokens[q] for q in table["query"]],
        key=[tokens[k] for k in table["key"]],
        name="L" + table["layer"].astype(str) + "H" + table["head"].astype(str),
    )
    size = max(90, 13 * len(tokens))
    return (
        alt.Chart(named)
        .mark_rect()
        .encode(
            x=alt.X("key:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=9),
            y=alt.Y("query:N", sort=tokens, title=None).axis(labelOverlap=False, labelFontSize=9),
            color=alt.Color("attention:Q").scale(domain=[0, 1], scheme="blues"),
            tooltip=["name", "query", "key", alt.Tooltip("attention:Q", format=".3f")],
        )
        .properties(width=size, height=size)
        .facet(facet=alt.Facet("name:N", title=None), columns=4)
    )


if __name__ == "__main__":
    from analyses.cli import script

    raise SystemExit(script("heads"))
