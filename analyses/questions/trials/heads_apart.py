"""Do the heads of a layer differ? What the question about heads says of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analyses.words import ANALYSIS_SEED, WordTensors
from interp.heads.apart import SIDES, distances, shared_directions
from interp.heads.over_words import over_words
from interp.model import ReadableModel

DISTANCE, SHARED = "distance", "shared directions"
SPAN = "distance, furthest less nearest head"
"""The distance between two heads of a layer; other words than those of the number chose both."""


def rows(model: ReadableModel, words: WordTensors, unit: np.ndarray) -> pd.DataFrame:
    """A row per measure and head, as of ``over_words``, with measure and uniform.

    "distance" is a mean over words; "shared directions, queries" and so on are the mean over the
    other heads of the layer. These are of the weights alone: without words, choice or interval.
    """
    far = distances(model, words.tokens, words.mask)
    far["part"] = "L" + far["layer"].astype(str) + "H" + far["head"].astype(str)
    parts = far["part"].unique()
    wide = far.pivot(index="word", columns="part", values=["distance", "even"])
    table = over_words(wide["distance"][parts], unit, seed=ANALYSIS_SEED)
    even = over_words(wide["even"][parts], unit, seed=ANALYSIS_SEED)["value"]
    tables = [table.assign(measure=DISTANCE, uniform=even)]
    pairs = shared_directions(model)
    if pairs.empty:  # a layer has one head
        return tables[0]
    turned = pairs.rename(columns={"one": "other", "other": "one"})
    means = pd.concat([pairs, turned]).groupby(["side", "layer", "one"], sort=True)["shared"].mean()
    for side in SIDES.values():
        frame = means[side].rename("value").reset_index().rename(columns={"one": "head"})
        frame["part"] = "L" + frame["layer"].astype(str) + "H" + frame["head"].astype(str)
        tables.append(frame.assign(measure=f"{SHARED}, {side}", words=0, different=0, undefined=0))
    return pd.concat(tables, ignore_index=True)


def apart(table: pd.DataFrame) -> dict[str, float]:
    """The differences between the heads of a layer, of one model.

    Returns:
        The mean over layers of ``SPAN``, in positions, and of "shared directions, queries" and so
        on, over the pairs of heads. Layers with one head have neither.
    """
    means = {}
    far = table[table["measure"] == DISTANCE]
    spans = [_span(group) for _, group in far.groupby("layer") if len(group) > 1]
    if spans:
        means[SPAN] = float(np.mean(spans))
    for measure, group in table[table["measure"].str.startswith(SHARED)].groupby("measure"):
        means[str(measure)] = float(group["value"].mean())
    return means


def compared(numbers: dict[str, float]) -> dict[str, float]:
    """The numbers of ``apart`` that are compared over seeds: ``SPAN``, and the directions that two
    heads share in what they read (the mean of queries, keys and values) and in what they write.

    They are few, because each comparison more raises the p-value of all others.
    """
    read = [numbers.get(f"{SHARED}, {side}", np.nan) for side in ("queries", "keys", "values")]
    values = [value for value in read if not np.isnan(value)]
    rows = {SPAN: numbers.get(SPAN, np.nan)}
    rows[f"{SHARED}, read"] = float(np.mean(values)) if values else np.nan
    rows[f"{SHARED}, written"] = numbers.get(f"{SHARED}, outputs", np.nan)
    return rows


def _span(heads: pd.DataFrame) -> float:
    by, value = heads["choice"].to_numpy(), heads["value"].to_numpy()
    return float("nan") if np.isnan(by).any() else float(value[by.argmax()] - value[by.argmin()])
