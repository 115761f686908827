"""The answers of some runs of a model after every prefix of a word, side by side."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.base import LanguageModel
from models.languages import Word, Words
from models.runs.run import Run
from models.training.evaluation import after_prefixes


@torch.no_grad()
def answers_after(
    run: Run, model: LanguageModel, word: Word, read: Words, outputs: Mapping[str, Tensor]
) -> pd.DataFrame:
    """One row per run of the model, prefix and token.

    Args:
        read: the words that the model read to say what follows every prefix.
        outputs: its logits, by what each run is called.

    Returns:
        Columns: run, position, place ("3 b"), token, probability, allowed. Of a run that was taught
        verdicts alone, END is the only token.
    """
    vocabulary, names = run.language.vocabulary, list(run.objective.tokens(run.language.vocabulary))
    ids = [vocabulary.ids[name] for name in names]
    position = np.repeat(np.arange(len(word) + 1), len(ids))
    tables = []
    for name, logits in outputs.items():
        said = after_prefixes(model, logits, read)
        table = pd.DataFrame({"run": name, "position": position})
        table["place"] = [f"{p} {('<bos>', *word)[p]}" for p in position]
        table["token"] = np.tile(names, len(word) + 1)
        table["probability"] = run.objective.probabilities(said)[:, ids].flatten().numpy()
        table["allowed"] = run.objective.allowed(said)[:, ids].flatten().numpy()
        tables.append(table)
    return pd.concat(tables, ignore_index=True)
