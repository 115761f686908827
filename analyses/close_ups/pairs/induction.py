"""Which heads carry a label from its example to the answer, and do they look as induction heads do?

An induction head looks from a symbol at what followed the same symbol earlier (Olsson et al. 2022).
In a prompt the label follows the letter, so such a head finds the answer. But the answer is made at
the border, one position after the query, so what looks from there at the label is scored too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType
from torch import Tensor

from analyses.answers import Progress, quiet
from analyses.charts.theme import SEVERAL, figures
from analyses.close_ups.pairs.in_context import language_of
from analyses.words import ANALYSIS_SEED, WordTensors
from interp.causal.ablation import ablate
from interp.heads.attention import attention
from interp.heads.attention_and_effect import rank_correlation
from interp.heads.types import head_types
from interp.statistics import bootstrap_mean, brackets, seeds_interval
from models.errors import UserError
from models.languages import Words
from models.languages.pairs.in_context import InContext
from models.runs.run import Run

SCORES = {"induction": "induction score", "at_border": "attention from the border to the label"}
BORDER_AT = -2
"""The position of the border in a whole prompt."""


def induction(
    runs: Sequence[Run], count: int = 300, seed: int = 0, progress: Progress = quiet
) -> pd.DataFrame:
    """What each head looks at, and how many right answers are lost without it (mean ablation).

    The prompts are those of held-out rules with the most examples of the training window, of which
    one or more have the letter of the query: their answer can be copied, and cannot be known by
    heart.

    Args:
        count: prompts.

    Returns:
        One row per run, model ("trained", "untrained") and head: part ("L0H1"), layer, head,
        induction (its score as a type of head, see ``interp.heads.types``), at_border (its
        attention from the border to the labels that follow the query's letter), accuracy (of the
        whole model), drop (accuracy lost without the head; negative if some is won), low, high (95%
        bootstrap over prompts), prompts.

    Raises:
        UserError: a run's words are no prompts, or it has no heads of one side.
    """
    rows: list[dict[str, object]] = []
    for number, run in enumerate(runs):
        language = language_of(run)
        if run.config.model.family.two_sided or not run.config.model.family.attends:
            raise UserError(
                f"{run.name} has no heads that read prompt and answer in one row: ask a "
                "Transformer without an encoder"
            )
        words = shown_prompts(language, run.config.max_n, count, seed)
        for done, (name, model) in enumerate(
            (("trained", run.model()), ("untrained", run.untrained()))
        ):
            progress(2 * number + done, 2 * len(runs), f"{run.name}, {name}")
            given = WordTensors.of(words)
            types = head_types(model, given.tokens, given.mask)
            types = types[types["type"] == "induction"].groupby(["layer", "head"])["score"].mean()
            looks = _at_border(attention(model, given.tokens)[0], words)

            margin = partial(_margin, run, torch.as_tensor(words.ids[:, -1:]))
            found = ablate(model, given.tokens, given.mask, margin, "mean")
            for (layer, head), own in found.groupby(["layer", "head"]):
                right = [(own[when] > 0).to_numpy(float) for when in ("before", "after")]
                drop, low, high = map(float, bootstrap_mean(right[0] - right[1]))
                row: dict[str, object] = {"run": run.name, "model": name}
                row |= {"part": f"L{layer}H{head}", "layer": layer, "head": head}
                row |= {"induction": float(types[layer, head])}
                row |= {"at_border": float(looks[layer, head]), "accuracy": right[0].mean()}
                rows.append(row | {"drop": drop, "low": low, "high": high, "prompts": len(own)})
    progress(1, 1, "induction heads")
    return pd.DataFrame(rows)


def shown_prompts(language: InContext, examples: int, count: int, seed: int) -> Words:
    """Prompts by held-out rules. The letter of the query also stands in an example."""
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    size = len(language.letters)
    lengths = np.full(8 * size * count, language.length_of(examples))
    words = language.prompts(rng, lengths, language.held_out)
    return words[np.flatnonzero(language.trace(words)["answer"][:, -1])[:count]]


def _margin(run: Run, true: Tensor, logits: Tensor) -> Tensor:
    """Above 0 where the true answer, [prompt, 1], is the likeliest token at the border."""
    said = run.objective.log_probabilities(logits[:, BORDER_AT], run.language.vocabulary)
    others = said.scatter(1, true, -torch.inf).max(dim=1).values
    return said.gather(1, true)[:, 0] - others


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


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Do heads that look at the label lose more answers? One row per run, model and score.

    Columns: run, model, score (a key of ``SCORES``), correlation (Spearman's, over heads, of score
    and drop), part (the head with the highest score), drop (without it), others (the mean drop
    without one of the other heads, which is that of a head drawn at random), accuracy. With several
    runs also rows of run "all": means, with low and high of the drop's excess over the others
    (Student's).
    """
    rows: list[dict[str, object]] = []
    for (run, model), own in table.groupby(["run", "model"], sort=False):
        for score in SCORES:
            best = own[score].idxmax()
            row: dict[str, object] = {"run": run, "model": model, "score": score}
            row["correlation"] = rank_correlation(own[score].to_numpy(), own["drop"].to_numpy())
            row |= {"part": own.loc[best, "part"], "drop": own.loc[best, "drop"]}
            row |= {"others": own["drop"].drop(best).mean(), "accuracy": own["accuracy"].iloc[0]}
            rows.append(row)
    found = pd.DataFrame(rows)
    if found["run"].nunique() < 2:
        return found
    means = []
    for (model, score), own in found.groupby(["model", "score"], sort=False):
        numbers = own[["correlation", "drop", "others", "accuracy"]].mean().to_dict()
        excess = (own["drop"] - own["others"]).to_numpy()
        _, low, high = seeds_interval(excess)
        about = {"run": "all", "model": model, "score": score, "part": "the highest"}
        means.append(about | numbers | {"low": low, "high": high})
    return pd.concat([found, pd.DataFrame(means)], ignore_index=True)


def in_words(table: pd.DataFrame) -> str:
    """What the table says of both scores."""
    found = ranks(table)
    of = "all" if (found["run"] == "all").any() else found["run"].iloc[0]
    rows = found[found["run"] == of].set_index(["model", "score"])
    over = f"means of {table['run'].nunique()} runs" if of == "all" else str(of)

    def which(row: pd.Series) -> str:
        return "" if of == "all" else f" ({row['part']})"

    def more(row: pd.Series) -> str:
        if of != "all":
            return ""
        ends = brackets(row["low"], row["high"], ".0%")
        return f" (95% interval of the difference{ends}, Student's)"

    said = []
    for score, shown in SCORES.items():
        own = rows.loc[("trained", score)]
        said.append(
            f"without the head of the highest {shown}{which(own)} {own['drop']:.0%} of the prompts "
            f"lose their right answer, without another one {own['others']:.0%}{more(own)}; over "
            f"heads score and loss have a rank correlation of {own['correlation']:.2f}"
        )
    own = rows.loc[("trained", "induction")]
    return (
        f"Of {int(table['prompts'].iloc[0])} prompts whose answer an example has, "
        f"{own['accuracy']:.0%} are answered right ({over}): {'; '.join(said)}. In the untrained "
        f"network {rows.loc[('untrained', 'induction')]['accuracy']:.0%} are right."
    )


def chart(table: pd.DataFrame) -> ChartType:
    """A point per head and score: what it looks at, and what is lost without it."""
    own = table[table["model"] == "trained"]
    long = own.melt(["run", "part", "drop", "low", "high"], list(SCORES), var_name="of")
    long["of"] = long["of"].map(SCORES)
    base = alt.Chart(long).encode(
        x=alt.X("value:Q", title="score").axis(tickCount=5),
        color=alt.Color("of:N", title=None)
        .scale(domain=list(SCORES.values()), range=SEVERAL[:2])
        .legend(orient="top", columns=1, labelLimit=300),
        tooltip=["run", "part", "of", *figures("value", "drop", "low", "high")],
    )
    y = alt.Y("drop:Q", title="right answers lost without it").axis(format="%")
    points = base.mark_point(filled=True, size=60).encode(y=y)
    ends = base.mark_rule(opacity=0.5).encode(y="low:Q", y2="high:Q")
    return (points + ends).properties(width=420, height=260)
