"""Do the scores of heads follow the cosine of the embeddings?"""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.answers import Progress, models_of, numbers, of_table, quiet
from analyses.charts.marks import points
from analyses.charts.theme import by_model, figures
from analyses.claims import Claim, measured
from analyses.options.parts import Cosine as Options
from interp.comparisons import corrected
from interp.heads.cosine import agreement_with_cosine
from interp.heads.qk_and_ov import has_rotary_positions, qk_circuit
from interp.statistics import t_interval
from models.base import EmbeddingModel, LanguageModel
from models.languages import END_ID
from models.runs.run import Run


def _cosine(run: Run, options: Options, progress: Progress = quiet) -> pd.DataFrame:
    """Rank correlation of each head's scores q.k with the cosine of the tokens' embeddings.

    Scores are those of the embeddings alone (``interp.heads.qk_and_ov.qk_circuit``; with rotary
    positions, of a key right before the query). END is never read, and left out.

    Returns:
        One row per model and head: model ("trained", "untrained"), head, correlation
        (Spearman's, over all ordered pairs of different tokens), corrected (p of Mantel's test, by
        Holm's method over the heads of a model), with_self (the correlation where a token is paired
        with itself too), tokens, pairs; and, equal for all heads of a model, mean (over heads),
        mean_low, mean_high (95%, by leaving out each token in turn: the jackknife, Tukey 1958).
    """
    tables = [
        _of_model(model, options.seed).assign(model=name)
        for name, model in models_of(run, progress)
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["model", *table.columns.drop("model")]]


def _of_model(model: LanguageModel, seed: int) -> pd.DataFrame:
    assert isinstance(model, EmbeddingModel)
    read = np.delete(np.arange(len(model.vocabulary)), END_ID)
    embeddings = model.W_E.detach().double().numpy()[read]
    distance = 1 if has_rotary_positions(model) else None
    rows, without = [], []
    for layer in range(model.config.n_layers):
        for head in range(model.config.n_heads):
            scores = qk_circuit(model, layer, head, distance).double().numpy()[np.ix_(read, read)]
            agreement = agreement_with_cosine(scores, embeddings, seed)
            without.append(agreement.without)
            rows.append(
                {
                    "head": f"L{layer}H{head}",
                    "correlation": agreement.others,
                    "corrected": agreement.p,
                    "with_self": agreement.everything,
                    "tokens": len(read),
                    "pairs": len(read) * (len(read) - 1),
                }
            )
    table = pd.DataFrame(rows)
    mean, count = table["correlation"].mean(), len(read)
    _, low, high = t_interval(count * mean - (count - 1) * np.mean(without, axis=0))
    half = (high - low) / 2
    return table.assign(
        corrected=corrected(table["corrected"].to_numpy()),
        mean=mean,
        mean_low=mean - half,
        mean_high=mean + half,
    )


def _claims(table: pd.DataFrame) -> list[Claim]:
    """The mean correlation of scores and cosine, beside no relation and the untrained network.
    Whether they are higher for like tokens or for unlike ones is left open beforehand."""
    after, before = (table[table["model"] == name] for name in ("trained", "untrained"))
    first, less = after.iloc[0], bool(after["mean"].iloc[0] < 0)
    rhos = after[after["corrected"] < 0.05]["correlation"]
    return [
        Claim(
            f"Heads score {'unlike' if less else 'like'} tokens higher: over heads, the rank "
            "correlation of scores with the cosine is {} on average",
            *measured(first, "mean", "mean_low", "mean_high", "tokens"),
            "tokens",
            "jackknife over tokens",
            {"no relation": 0.0, "the untrained network": before["mean"].iloc[0]},
            less=less,
            notes=[
                f"Of {len(after)} heads {(rhos > 0).sum()} score like tokens higher and "
                f"{(rhos < 0).sum()} unlike ones (Mantel's test, p < 0.05, Holm's correction)."
            ],
        )
    ]


def _chart(table: pd.DataFrame) -> ChartType:
    """A point per head: the rank correlation of its scores with the cosine."""
    title = "rank correlation of scores and cosine"
    return points(
        table,
        alt.X("correlation:Q", title=title).scale(domain=[-1, 1]),
        alt.Y("head:N", title=None, sort=table["head"].unique().tolist()),
        ["model", "head", *figures("correlation", "corrected", "with_self"), "pairs"],
        by_model(),
        ends=None,
    ).properties(width=360)


def _headline(table: pd.DataFrame) -> pd.DataFrame:
    """The number that is compared over seeds: the mean over heads."""
    means = table.groupby("model", sort=False)["correlation"].mean()
    return numbers(("mean correlation over heads", model, value) for model, value in means.items())


QUESTION = of_table(
    "cosine",
    Options,
    _cosine,
    _claims,
    _headline,
    _chart,
    needs=("heads", "one side", "residual"),
)
