"""Exact Shapley values of a word of twelve symbols, beside shap's own Exact explainer.

Both ask the same model for all 2^12 words in which symbols are replaced. Ours asks once, and the
model computes a prefix that words share once; shap asks in batches of its own. The values must be
equal before they are timed. Beside it, shap's explainer over our own way to score words: what is
left is how the words are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import shap  # noqa: F401 - before ours imports it, so that the peer is compiled
import torch

from analyses.questions.explanations import probability
from interp.explanations.games import Game, exact_shapley
from interp.explanations.lime_and_shap import shap_exact
from models.config import ModelConfig
from models.languages import END_ID, Vocabulary
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.transformer.model import HookedTransformer
from tests.benchmarks.measure import Result, compare

SYMBOLS = 12
TARGET = 3.0


def attribution_speed() -> Iterator[Result]:
    """Two comparisons."""
    model = HookedTransformer(ModelConfig(), Vocabulary(tuple("abcdefgh")), seed=0).eval()
    word = np.arange(SYMBOLS) % 8 + FIRST_SYMBOL_ID
    hidden = ((word - FIRST_SYMBOL_ID + 3) % 8 + FIRST_SYMBOL_ID)[None]  # another one everywhere

    @torch.no_grad()
    def plain(ids: np.ndarray) -> np.ndarray:
        logits = model(torch.as_tensor(np.pad(ids, ((0, 0), (1, 0)))))
        return logits[:, -1, END_ID].sigmoid().double().numpy()

    score = probability(model)
    ours, theirs = Game(score, word, hidden), Game(plain, word, hidden)
    np.testing.assert_allclose(exact_shapley(ours), shap_exact(theirs), atol=1e-6)
    task = f"exact Shapley values of {SYMBOLS} symbols"
    for name, peer, target in (
        ("shap Exact", theirs, TARGET),
        ("shap Exact, our scores", ours, 1.0),
    ):
        yield compare(
            task,
            lambda: exact_shapley(ours.fresh()),
            (name, partial(values_of, peer)),
            "speedup",
            target,
            10,
        )


def values_of(game: Game) -> np.ndarray:
    """shap's, nothing remembered."""
    return shap_exact(game.fresh())
