"""One head: its circuits, and the verdict on one word without it."""

from __future__ import annotations

import altair as alt
import numpy as np
import pandas as pd
from altair.typing import ChartType

from analyses.charts.marks import heat
from analyses.charts.theme import figures, named
from analyses.questions.parts.heads import METHODS
from analyses.words import WordTensors, sample_window
from interp.causal.ablation import ablate
from interp.causal.metrics import logit_at
from interp.heads.qk_and_ov import has_rotary_positions, ov_circuit, qk_circuit
from interp.model import CircuitModel
from models.base import LanguageModel
from models.languages import END, END_ID, Word, Words
from models.runs.run import Run

OTHERS = 64
"""Words of the training window whose mean z replaces the head's."""
AXES = {"width": "target", "height": "source"}


def verdicts_without(model: LanguageModel, run: Run, word: Word) -> pd.DataFrame:
    """END's logit of one word, with every head and without it.

    Returns:
        One row per method, layer and head: method ("mean", "zero": what stands in place of the
        head's z), layer, head, before, after (END's logit where the verdict is read).
    """
    others = sample_window(run, OTHERS, 0).words
    words = WordTensors.of(Words.concatenate(run.language.vocabulary.words([word]), others))
    mask = words.mask.clone()
    mask[0] = False  # the word has no part in the mean
    metric = logit_at(END_ID, model.verdict_positions(words.last))
    tables = {
        method: ablate(model, words.tokens, mask, metric, method).query("word == 0")
        for method in METHODS[:2]
    }
    return pd.concat(tables, names=["method"]).reset_index("method")


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
