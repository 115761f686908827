"""Exact Shapley values of a word of twelve symbols, beside shap's own Exact explainer.

Both ask the same model for all 2^12 words in which symbols are replaced. The values must be equal
before they are timed. There are three peers: shap as it comes; shap that asks for all words at
once, over a model that computes a beginning which words share only once, as ours does; and the
formula over one batch of the plain model. So it is seen what comes from where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import comb
from typing import Any

import numpy as np
import torch
from scipy.special import expit

from analyses.questions.words.explanations import log_odds
from interp.explanations.games import Game, Score, exact_shapley
from models.languages import END_ID, Vocabulary
from models.languages.vocabulary import FIRST_SYMBOL_ID
from models.model_config import ModelConfig
from models.transformer.model import HookedTransformer
from tests.benchmarks.measure import Result, Side, compare

SYMBOLS = 12
TARGET = 3.0  # than shap as it comes
SHAP, BATCH = "shap", "plain PyTorch"


def attribution_speed() -> Iterator[Result]:
    """Three comparisons."""
    model = HookedTransformer(ModelConfig(), Vocabulary(tuple("abcdefgh")), seed=0).eval()
    word = np.arange(SYMBOLS) % 8 + FIRST_SYMBOL_ID
    hidden = (word - FIRST_SYMBOL_ID + 3) % 8 + FIRST_SYMBOL_ID  # another one everywhere

    @torch.no_grad()
    def plain(ids: np.ndarray) -> np.ndarray:
        logits = model(torch.as_tensor(np.pad(ids, ((0, 0), (1, 0)))))
        return logits[:, -1, END_ID].sigmoid().double().numpy()

    def score(ids: np.ndarray) -> np.ndarray:
        return expit(log_odds(model)(ids))

    game = Game(score, word, hidden[None])
    ours = Side(
        "ours",
        "all words in one batch, each shared beginning computed once",
        lambda: exact_shapley(game.fresh()),
    )
    peers = [
        (Side(SHAP, "Exact as it comes", explainer(plain, word, hidden)), TARGET),
        (
            Side(
                SHAP,
                "Exact, all words in one batch, over our model's shared beginnings",
                explainer(score, word, hidden, batch_size=2**SYMBOLS),
            ),
            1.0,
        ),
        (Side(BATCH, "the formula, all words in one batch", formula(plain, word, hidden)), 1.0),
    ]
    for peer, target in peers:
        np.testing.assert_allclose(ours.work(), peer.work(), atol=1e-6)
        yield compare(f"exact Shapley values of {SYMBOLS} symbols", ours, peer, target, 15)


def explainer(
    score: Score, word: np.ndarray, hidden: np.ndarray, **options: Any
) -> Callable[[], np.ndarray]:
    """shap's, made once: it then remembers the order in which it asks."""
    import shap  # here: the lab itself imports it without its compiler, and tests read this file

    made = shap.ExactExplainer(
        lambda ids: score(ids.astype(np.int64)), shap.maskers.Independent(hidden[None])
    )
    return lambda: made(word[None], silent=True, **options).values[0]


def formula(score: Score, word: np.ndarray, hidden: np.ndarray) -> Callable[[], np.ndarray]:
    """Shapley's formula as numpy has it shortest: a symbol's mean gain, by size and then over
    sizes."""
    size = len(word)
    keep = (np.arange(2**size)[:, None] >> np.arange(size)) & 1 == 1
    kept = keep.sum(axis=1)
    share = 1 / np.array([comb(size, k) for k in range(size + 1)])
    with_it = share[kept] / np.maximum(kept, 1)
    without = share[kept] / np.maximum(size - kept, 1)
    weight = np.where(keep, with_it[:, None], -without[:, None])
    return lambda: score(np.where(keep, word, hidden)) @ weight
