"""Vectors from counts: which words stand near which, and how much more often than by chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

Text = Sequence[Int[np.ndarray, " _"]]
"""Sentences as numbers of words, from 0."""


def pairs(text: Text, window: int) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """Each word with each other word at most ``window`` places away in its sentence.

    Returns:
        The words, and those that stand near them; every pair comes in both orders.
    """
    centres, near = list[np.ndarray](), list[np.ndarray]()
    for sentence in text:
        for apart in range(1, min(window, len(sentence) - 1) + 1):
            first, second = sentence[:-apart], sentence[apart:]
            centres += [first, second]
            near += [second, first]
    if not centres:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate(centres), np.concatenate(near)


def cooccurrences(text: Text, words: int, window: int) -> Float[np.ndarray, "word context"]:
    """The number of times that each word stands at most ``window`` places from each other one.

    Args:
        words: number of words.
    """
    counts = np.zeros((words, words))
    np.add.at(counts, pairs(text, window), 1.0)
    return counts


def pmi(counts: Float[np.ndarray, "word context"]) -> Float[np.ndarray, "word context"]:
    """Pointwise mutual information in nats: log p(word, context) / (p(word) p(context)).

    It is -inf for pairs that never occur.
    """
    total = counts.sum()
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / total
    with np.errstate(divide="ignore"):
        return np.log(np.divide(counts, expected, out=np.zeros_like(counts), where=expected > 0))


def ppmi_vectors(
    counts: Float[np.ndarray, "word context"], dim: int
) -> Float[np.ndarray, "word dim"]:
    """Positive PMI, reduced to its ``dim`` largest directions (Levy, Goldberg and Dagan 2015).

    The singular values are taken with their root.
    """
    left, size, _ = np.linalg.svd(np.maximum(pmi(counts), 0.0))
    return np.asarray(left[:, :dim] * np.sqrt(size[:dim]))
