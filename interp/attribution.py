"""LIME and SHAP on token sequences: what did each symbol do for the model's verdict?

Every method explains the same game. A coalition keeps some positions and hides the others; a hidden
symbol is replaced, never deleted, so the length stays: deleting one would change n. The value of a
coalition is the mean of the model's score over the replacements given.

Both libraries are used on binary masks of positions: LIME with ``bow=False``, SHAP's kernel with
``l1_reg=False``; their defaults merge equal symbols and drop features.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import factorial

import numpy as np
import pandas as pd
import shap
from jaxtyping import Bool, Float, Int
from lime.lime_text import LimeTextExplainer
from sklearn.metrics import roc_auc_score

Score = Callable[[Int[np.ndarray, "batch time"]], Float[np.ndarray, " batch"]]
"""The explained quantity of words given as token ids without BOS, all of one length."""

EXACT_LIMIT = 12  # 2^12 coalitions


@dataclass
class Game:
    """The value of keeping some positions of a word.

    Attributes:
        score: what is explained.
        word: token ids without BOS, [time].
        replacements: the words that stand in for hidden symbols, [draws, time].
        calls: words scored so far.
    """

    score: Score
    word: Int[np.ndarray, " time"]
    replacements: Int[np.ndarray, "draws time"]
    calls: int = 0

    def __call__(self, keep: Bool[np.ndarray, "coalition time"]) -> Float[np.ndarray, " coalition"]:
        keep = np.asarray(keep, dtype=bool)
        words = np.where(keep[:, None], self.word, self.replacements[None])
        flat = words.reshape(-1, len(self.word))
        self.calls += len(flat)
        return self.score(flat).reshape(len(keep), -1).mean(axis=1)


def exact_shapley(game: Game) -> Float[np.ndarray, " time"]:
    """Shapley's values from all 2^time coalitions in one batch.

    phi_i = sum over S without i of |S|! (T-|S|-1)! / T! (v(S + i) - v(S)).

    Raises:
        ValueError: the word is longer than EXACT_LIMIT.
    """
    size = len(game.word)
    if size > EXACT_LIMIT:
        raise ValueError(f"{size} symbols make 2^{size} coalitions: explain at most {EXACT_LIMIT}")
    subsets = np.arange(2**size)
    keep = (subsets[:, None] >> np.arange(size)) & 1 == 1
    value, members = game(keep), keep.sum(axis=1)
    weight = np.array(
        [factorial(k) * factorial(size - k - 1) for k in range(size)], dtype=np.float64
    )
    weight /= factorial(size)
    phi = np.empty(size)
    for i in range(size):
        without = subsets[~keep[:, i]]
        gain = value[without | (1 << i)] - value[without]
        phi[i] = (weight[members[without]] * gain).sum()
    return phi


def kernel_shap(game: Game, samples: int = 512, seed: int = 0) -> Float[np.ndarray, " time"]:
    """``shap.KernelExplainer`` on position masks, all features kept."""
    size = len(game.word)
    explainer = shap.KernelExplainer(lambda keep: game(keep > 0.5), np.zeros((1, size)))
    with _seeded(seed):
        values = explainer.shap_values(
            np.ones((1, size)), nsamples=samples, l1_reg=False, silent=True
        )
    return np.asarray(values, dtype=np.float64).reshape(size)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """shap draws from numpy's global state: set it, then put it back."""
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)


def lime(game: Game, samples: int = 512, seed: int = 0) -> Float[np.ndarray, " time"]:
    """``LimeTextExplainer`` with one feature a position: the weights of its local linear model."""
    size = len(game.word)
    hidden = "_"
    explainer = LimeTextExplainer(
        bow=False,
        mask_string=hidden,
        split_expression=r"\s+",
        class_names=["out", "in"],
        random_state=seed,
    )

    def probabilities(texts: list[str]) -> np.ndarray:
        keep = np.array([[token != hidden for token in text.split()] for text in texts])
        value = game(keep)
        return np.stack([1 - value, value], axis=1)

    text = " ".join(f"t{i}" for i in range(size))
    explanation = explainer.explain_instance(
        text, probabilities, labels=(1,), num_features=size, num_samples=samples
    )
    weights = np.zeros(size)
    for position, weight in explanation.local_exp[1]:
        weights[position] = weight
    return weights


def random_scores(game: Game, seed: int = 0) -> Float[np.ndarray, " time"]:
    """The control: numbers that know nothing."""
    return np.random.default_rng(seed).normal(size=len(game.word))


def position_scores(game: Game) -> Float[np.ndarray, " time"]:
    """The control that knows the position alone: later symbols first."""
    return np.arange(len(game.word), dtype=np.float64)


def explain(game: Game, truth: Game | None, samples: int = 512, seed: int = 0) -> pd.DataFrame:
    """All methods on one word.

    Args:
        game: of the model.
        truth: of the language's own membership, under the same replacements; its exact Shapley
            values are the row "language", what a perfect explainer of a perfect model would say.

    Returns:
        One row per method and position: method, position, value, calls (words that the method had
        scored), seconds.
    """
    methods: dict[str, Callable[[], np.ndarray]] = {
        "LIME": lambda: lime(game, samples, seed),
        "SHAP kernel": lambda: kernel_shap(game, samples, seed),
        "random": lambda: random_scores(game, seed),
        "position": lambda: position_scores(game),
    }
    if len(game.word) <= EXACT_LIMIT:
        methods["Shapley exact"] = lambda: exact_shapley(game)
        if truth is not None:
            methods["language"] = lambda: exact_shapley(truth)
    tables = []
    for name, method in methods.items():
        calls, start = game.calls, time.perf_counter()
        value = method()
        tables.append(
            pd.DataFrame(
                {
                    "method": name,
                    "position": np.arange(len(value)),
                    "value": value,
                    "calls": game.calls - calls,
                    "seconds": time.perf_counter() - start,
                }
            )
        )
    return pd.concat(tables, ignore_index=True)


def agreement(table: pd.DataFrame, rationale: tuple[int, ...] | None) -> pd.DataFrame:
    """How right each method was: one row per method.

    Columns: method; auroc (do the deciding positions rank above the others by absolute value? NaN
    where all or none decide); correlation with the model's exact Shapley values (is the
    approximation good?) and correlation_to_language with the language's (is it right?), Pearson,
    NaN where either is constant or missing; calls; seconds.
    """
    values = {name: part["value"].to_numpy() for name, part in table.groupby("method", sort=False)}
    rows = []
    for name, part in table.groupby("method", sort=False):
        value = values[name]
        decides = np.isin(np.arange(len(value)), rationale or ())
        mixed = 0 < decides.sum() < len(value)
        rows.append(
            {
                "method": name,
                "auroc": float(roc_auc_score(decides, np.abs(value))) if mixed else np.nan,
                "correlation": _correlation(value, values.get("Shapley exact")),
                "correlation_to_language": _correlation(value, values.get("language")),
                "calls": int(part["calls"].iloc[0]),
                "seconds": float(part["seconds"].iloc[0]),
            }
        )
    return pd.DataFrame(rows)


def _correlation(value: np.ndarray, reference: np.ndarray | None) -> float:
    if reference is None or np.ptp(value) == 0 or np.ptp(reference) == 0:
        return float("nan")
    return float(np.corrcoef(value, reference)[0, 1])
