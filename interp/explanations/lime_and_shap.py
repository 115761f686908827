"""LIME and SHAP by their own libraries, on binary masks of a word's positions.

All functions return one value per symbol for each output of the game, [*outputs, time], in the unit
of the output; positive means that the symbol raises it. One set of queries serves all outputs.
LIME runs with ``bow=False``, since its default merges equal symbols.
SHAP's kernel runs with ``l1_reg=False``, since its default drops features.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import linkage

from interp.explanations.case import Values
from interp.explanations.games import EXACT_LIMIT, SCALES, Game, exact_shapley
from interp.explanations.shap_import import shap


def lime(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``LimeTextExplainer`` with one feature per position (Ribeiro et al. 2016).

    The values are the weights of its local linear model.

    Args:
        samples: coalitions that are asked about.
        seed: seed of their choice.
    """
    from lime.lime_text import LimeTextExplainer  # imported here, because it takes time

    size = len(game.word)
    hidden = "_"
    explainer = LimeTextExplainer(
        bow=False,
        mask_string=hidden,
        split_expression=r"\s+",
        class_names=list(SCALES),
        feature_selection="none",  # all features are wanted
        random_state=seed,
    )

    def outputs(texts: list[str]) -> np.ndarray:
        keep = np.array([[token != hidden for token in text.split()] for text in texts])
        return game(keep).reshape(len(keep), -1)

    shape = game.link(np.zeros(1)).shape[1:]
    weights = np.zeros((*shape, size)).reshape(-1, size)
    text = " ".join(f"t{i}" for i in range(size))
    # LIME calls an output a label, and fits one linear model to each on the same coalitions.
    explanation = explainer.explain_instance(
        text, outputs, labels=range(len(weights)), num_features=size, num_samples=samples
    )
    for output, pairs in explanation.local_exp.items():
        for position, weight in pairs:
            weights[output, position] = weight
    return weights.reshape(*shape, size)


def kernel_shap(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``shap.KernelExplainer`` on position masks, with all features kept (Lundberg and Lee 2017).

    Args:
        samples: coalitions that are asked about, but at least two per position: with fewer its
            equations are singular.
        seed: seed of their choice.
    """
    size = len(game.word)
    explainer = shap().KernelExplainer(lambda keep: game(keep > 0.5), np.zeros((1, size)))
    with _seeded(seed):
        values = explainer.shap_values(
            np.ones((1, size)), nsamples=max(samples, 2 * size), l1_reg=False, silent=True
        )
    return np.asarray(values[0], dtype=np.float64).T


_GLOBAL_STATE = threading.Lock()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Sets numpy's global random state, from which shap draws, and puts it back afterwards. All
    threads share this state, so one at a time has it."""
    with _GLOBAL_STATE:
        state = np.random.get_state()
        np.random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(state)


def permutation_shap(game: Game, samples: int = 512, seed: int = 0) -> Values:
    """``shap.PermutationExplainer``: mean gains over random orders, forwards and backwards.

    Args:
        samples: coalitions that may be asked about, but at least enough for one order.
        seed: seed of the orders.
    """
    size = len(game.word)
    least = 2 * size + 1  # one order, forwards and backwards
    return _explained(
        game,
        lambda play: shap().PermutationExplainer(play, _masker(size), seed=seed),
        max(samples, least),
        seed,
    )


def partition_shap(game: Game, samples: int = 512) -> Values:
    """``shap.PartitionExplainer``: Owen's values, with neighbouring positions in one group.

    Args:
        samples: coalitions that may be asked about.
    """
    size = len(game.word)
    if size == 1:  # nothing to group
        return exact_shapley(game)
    groups = linkage(np.arange(size, dtype=np.float64)[:, None], "complete")
    masker = shap().maskers.Partition(np.zeros((1, size)), clustering=groups)
    return _explained(game, lambda play: shap().PartitionExplainer(play, masker), samples)


def shap_exact(game: Game) -> Values:
    """``shap.ExactExplainer``: all coalitions. Raises ValueError beyond EXACT_LIMIT positions."""
    size = len(game.word)
    if size > EXACT_LIMIT:
        raise ValueError(f"{size} symbols: explain at most {EXACT_LIMIT}")
    return _explained(game, lambda play: shap().ExactExplainer(play, _masker(size)), 2**size)


def _masker(size: int) -> Any:
    return shap().maskers.Independent(np.zeros((1, size)))


def _explained(game: Game, make: Callable[..., Any], most: int, seed: int = 0) -> Values:
    with _seeded(seed):
        explainer = make(lambda keep: game(keep > 0.5))
        explanation = explainer(np.ones((1, len(game.word))), max_evals=most, silent=True)
    return np.asarray(explanation.values[0], dtype=np.float64).T
