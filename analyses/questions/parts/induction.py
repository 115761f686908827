"""Which heads carry a label from its example to the answer, and do they look as induction heads do?

An induction head looks from a symbol at what followed the same symbol earlier (Olsson et al. 2022).
In a prompt the label follows the letter, so such a head finds the answer. But the answer is made at
the border, one position after the query, so what looks from there at the label is scored too.
"""

from __future__ import annotations

from functools import partial

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from torch import Tensor

from analyses.answers import Planned, Progress, models_of, numbers, of_table, quiet
from analyses.charts.marks import dots
from analyses.charts.theme import colours, figures
from analyses.claims import Claim, measured
from analyses.options.parts import Induction as Options
from analyses.words import ANALYSIS_SEED, WordTensors
from interp.causal.ablation import ablate
from interp.heads.attention import attention
from interp.heads.attention_and_effect import rank_correlation
from interp.heads.types import head_types
from interp.statistics import bootstrap_mean
from models.languages import Words
from models.languages.pairs.in_context import InContext
from models.runs.run import Run

SCORES = {"induction": "induction score", "at_border": "attention from the border to the label"}
BORDER_AT = -2
"""The position of the border in a whole prompt."""


def _induction(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """The attention of each head, and the right answers lost without it (mean ablation).

    The prompts are those of held-out rules with the most examples of the training window, of which
    one or more have the letter of the query: their answer can be copied, and cannot be known by
    heart.

    Returns:
        One row per model ("trained", "untrained") and head: part ("L0H1"), layer, head,
        induction (its score as a type of head, see ``interp.heads.types``), at_border (its
        attention from the border to the labels that follow the query's letter), accuracy (of the
        whole model), drop (accuracy lost without the head; negative if some is won), low, high (95%
        bootstrap over prompts), prompts.
    """
    assert isinstance(run.language, InContext)
    words = _shown_prompts(run.language, run.config.max_n, options.count, options.seed)
    given = WordTensors.of(words)
    margin = partial(_margin, run, torch.as_tensor(words.ids[:, -1:]))
    rows: list[dict[str, object]] = []
    for name, model in models_of(run, progress):
        types = head_types(model, given.tokens, given.mask)
        types = types[types["type"] == "induction"].groupby(["layer", "head"])["score"].mean()
        looks = _at_border(attention(model, given.tokens)[0], words)
        effects = ablate(model, given.tokens, given.mask, margin, "mean")
        for (layer, head), of_head in effects.groupby(["layer", "head"]):
            right = [(of_head[when] > 0).to_numpy(float) for when in ("before", "after")]
            drop, low, high = map(float, bootstrap_mean(right[0] - right[1]))
            row: dict[str, object] = {"model": name, "part": f"L{layer}H{head}"}
            row |= {"layer": layer, "head": head, "induction": float(types[layer, head])}
            row |= {"at_border": float(looks[layer, head]), "accuracy": right[0].mean()}
            rows.append(row | {"drop": drop, "low": low, "high": high, "prompts": len(of_head)})
    return pd.DataFrame(rows)


def _shown_prompts(language: InContext, examples: int, count: int, seed: int) -> Words:
    """Prompts by held-out rules. The letter of the query also stands in an example."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    size = len(language.letters)
    lengths = np.full(8 * size * count, language.length_of(examples))
    words = language.prompts(rng, lengths, language.held_out)
    return words[np.flatnonzero(language.trace(words)["answer"][:, -1])[:count]]


def _margin(run: Run, true: Tensor, logits: Tensor) -> Tensor:
    """Above 0 where the true answer, [prompt, 1], is the likeliest token at the border."""
    logprobs = run.objective.log_probabilities(logits[:, BORDER_AT], run.language.vocabulary)
    others = logprobs.scatter(1, true, -torch.inf).max(dim=1).values
    return logprobs.gather(1, true)[:, 0] - others


def _at_border(pattern: Tensor, words: Words) -> np.ndarray:
    """Attention from the border to the labels after the query's letter, [layer, head]: the mean
    over prompts.

    Args:
        pattern: [layer, prompt, head, query, key].
    """
    ids = words.ids
    follows = np.zeros(words.tokens.shape, dtype=bool)
    follows[:, 2:] = ids[:, :-1] == ids[:, -3:-2]
    follows[:, BORDER_AT:] = False  # the query itself is followed by the border
    keys = torch.as_tensor(follows)[None, :, None]
    return (pattern[:, :, :, BORDER_AT] * keys).sum(dim=-1).mean(dim=1).numpy()


def _ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Do heads that look at the label lose more answers? One row per model and score.

    Columns: model, score (a key of ``SCORES``), correlation (Spearman's, over heads, of score and
    drop), part (the head with the highest score), highest (that score), drop, low, high and prompts
    (without it), others (the mean drop without one of the other heads, which is that of a head
    drawn at random), accuracy.
    """
    rows: list[dict[str, object]] = []
    for model, heads in table.groupby("model", sort=False):
        for score in SCORES:
            best = heads.loc[heads[score].idxmax()]
            row: dict[str, object] = {"model": model, "score": score}
            row["correlation"] = rank_correlation(heads[score].to_numpy(), heads["drop"].to_numpy())
            row |= {name: best[name] for name in ("part", "drop", "low", "high", "prompts")}
            row |= {"highest": best[score], "others": heads["drop"].drop(best.name).mean()}
            rows.append(row | {"accuracy": heads["accuracy"].iloc[0]})
    return pd.DataFrame(rows)


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The answers lost without the head of the highest score, of each score, beside one of the
    other heads, and the untrained network's own such head."""
    rows = _ranks(table).set_index(["model", "score"])
    return [
        Claim(
            f"Without the head of the highest {shown} ({best['part']}: {best['highest']:.2f}) {{}} "
            "of the prompts lose their right answer",
            *measured(best, "drop", "low", "high", "prompts"),
            f"prompts whose answer an example has, {best['accuracy']:.0%} right with all heads",
            "bootstrap over prompts",
            {
                "another head": best["others"],
                "the untrained network": rows.loc[("untrained", score), "drop"],
            },
            "z.0%",
            notes=[
                f"Over heads, score and loss have a rank correlation of {best['correlation']:.2f}."
            ],
        )
        for score, shown in SCORES.items()
        for best in [rows.loc[("trained", score)]]
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """A point per head and score: what it looks at, and what is lost without it."""
    rows = table[table["model"] == "trained"]
    long = rows.melt(["part", "drop", "low", "high"], list(SCORES), var_name="of")
    return dots(
        long.assign(of=long["of"].map(SCORES)),
        alt.X("value:Q", title="score").axis(tickCount=5),
        alt.Y("drop:Q", title="right answers lost without it").axis(format="%"),
        ["part", "of", *figures("value", "drop", "low", "high")],
        colours("of", list(SCORES.values()), columns=1, labelLimit=300),
    ).properties(width=420, height=260)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers that are compared over seeds: what is lost without the head of the highest score, and
    without another one."""
    rows = []
    for row in _ranks(table).itertuples():
        rows.append((f"{row.model}, highest {SCORES[row.score]}", "lost without it", row.drop))
        rows.append((f"{row.model}, highest {SCORES[row.score]}", "without another", row.others))
    return numbers(rows)


QUESTION = of_table(
    "induction",
    Options,
    _induction,
    _claims,
    _headline,
    _chart,
    needs=("prompts", "next symbols", "causal", "heads", "one side"),
    planned=(Planned("lost without it", "without another"),),
)
