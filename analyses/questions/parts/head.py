"""One head on one word: its types, its circuits, and the verdict without it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch
from altair.typing import ChartType

from analyses.charts.marks import bars, heat
from analyses.charts.theme import CHOSEN, TRAINED, UNTRAINED, colours, figures, named
from analyses.questions.parts.heads import METHODS
from analyses.words import WordTensors, sample_window
from interp.causal.ablation import ablate
from interp.causal.metrics import logit_at
from interp.heads.qk_and_ov import has_rotary_positions, ov_circuit, qk_circuit
from interp.heads.types import head_types
from interp.model import CircuitModel, HookedModel
from models.base import LanguageModel
from models.languages import END, END_ID, Vocabulary, Word, Words
from models.runs.run import Run

OTHERS = 64
"""Words of the training window from which a replacement of the head's z comes: the mean of their z,
or the z of one of them."""
DRAWS = 16
"""Words from which a head's z is taken, one after the other, where it is resampled."""
AXES = {"width": "target", "height": "source"}


def types_on(
    models: Sequence[tuple[str, HookedModel]], vocabulary: Vocabulary, word: Word
) -> pd.DataFrame:
    """The types of every head of some models on one word.

    Returns:
        One row per model, layer, head and type: model, layer, head, type, score, uniform.
    """
    words = WordTensors.of(vocabulary.words([word]))
    tables = [
        head_types(model, words.tokens, words.mask).assign(model=name) for name, model in models
    ]
    columns = ["model", "layer", "head", "type", "score", "uniform"]
    return pd.concat(tables, ignore_index=True)[columns]


def verdicts_without(model: LanguageModel, run: Run, word: Word) -> pd.DataFrame:
    """END's logit of one word, with every head and without it.

    Returns:
        One row per layer, head and method: layer, head, method, before, after (END's logit where
        the verdict is read; for "resample" the mean over the draws), accepted (in how many draws
        the word is taken for one of the language) and draws (how many there are; 0 where no other
        word is as long).
    """
    others = sample_window(run, OTHERS, 0).words
    tables = []
    for method in METHODS:
        copies = DRAWS if method == "resample" else 1
        repeats = run.language.vocabulary.words([word] * copies)
        words = WordTensors.of(Words.concatenate(repeats, others))
        mask = words.mask.clone()
        mask[:copies] &= torch.tensor(method == "resample")  # the word has no part in the mean
        metric = logit_at(END_ID, model.verdict_positions(words.last))
        table = ablate(model, words.tokens, mask, metric, method)
        table = table[table["word"] < copies]
        table = table.assign(accepted=table["after"] > 0, draws=table["after"].notna())
        how = {"before": "first", "after": "mean", "accepted": "sum", "draws": "sum"}
        tables.append(table.groupby(["layer", "head"], as_index=False).agg(how))
    return pd.concat(tables, keys=METHODS, names=["method"]).reset_index("method")


def circuits(model: CircuitModel, run: Run, layer: int, head: int) -> pd.DataFrame:
    """The QK and OV circuit of a head by token.

    Returns:
        One row per circuit and pair: circuit ("QK", "OV"), source (the query; the token attended
        to), target (the key; the token whose logit it is), value. END is never read. The logits
        are those that the run was taught. With rotary positions a score depends on the distance:
        that of a key right before the query is given.
    """
    tables = []
    distance = 1 if has_rotary_positions(model) else None
    tokens = np.array(run.language.vocabulary.tokens)
    read = tokens != END
    taught = np.isin(tokens, run.objective.tokens(run.language.vocabulary))
    for name, matrix, shown in (
        ("QK", qk_circuit(model, layer, head, distance), read),
        ("OV", ov_circuit(model, layer, head), taught),
    ):
        value = matrix.numpy()[read][:, shown]
        source, target = (index.ravel() for index in np.indices(value.shape))
        columns = {"source": tokens[read][source], "target": tokens[shown][target]}
        tables.append(pd.DataFrame({"circuit": name, **columns, "value": value.ravel()}))
    return pd.concat(tables, ignore_index=True)


def types_chart(table: pd.DataFrame) -> ChartType:
    """The types of one head: bars for the two models, a tick where even attention would be."""
    names, models = (list(dict.fromkeys(table[of])) for of in ("type", "model"))
    y = alt.Y("type:N", sort=names, title=None).scale(domain=names)
    even = alt.Tooltip("uniform:Q", format=".3f", title="even attention")
    rows = table.dropna(subset="score")
    picture = bars(
        rows,
        alt.X("score:Q", title="score (line: even attention)").scale(domain=[0, 1]),
        y,
        tips := ["model", "type", *figures("score"), even],
        colours("model", models, [TRAINED, UNTRAINED]),
        ends=None,
        step=13,
        yOffset=alt.YOffset("model:N", sort=models),
    )
    tick = alt.Chart(rows).mark_tick(color=CHOSEN, thickness=2, size=26)
    return (picture + tick.encode(x="uniform:Q", y=y, tooltip=tips)).properties(width=180)


def circuit_chart(table: pd.DataFrame, name: str) -> ChartType:
    """One circuit as a heatmap: source down, target across."""
    rows = table[table["circuit"] == name]
    source, target = {"QK": ("query", "key"), "OV": ("attended to", "logit of")}[name]
    largest = rows["value"].abs().max() or 1.0  # a head that averages scores every key 0
    color = alt.Color("value:Q", title={"QK": "score", "OV": "added"}[name])
    return heat(
        rows,
        named(alt.X, "target", title=target),
        named(alt.Y, "source", title=source),
        ["source", "target", *figures("value")],
        color.scale(domain=[-largest, 0, largest], scheme="redblue"),
    ).properties(**{axis: 26 * rows[field].nunique() for axis, field in AXES.items()})
