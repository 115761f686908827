"""Does the way from a to b lead from c to d? Analogies with a known answer, and their controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Analogy:
    """a is to b as c is to any of the answers; words are given by their number."""

    a: int
    b: int
    c: int
    answers: frozenset[int]


def unit(vectors: Float[np.ndarray, "*any dim"]) -> Float[np.ndarray, "*any dim"]:
    """Vectors of length 1; one of length 0 stays as it is."""
    size = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(size > 0, size, 1.0))


def ranked(
    vectors: Float[np.ndarray, "word dim"], goal: Float[np.ndarray, " dim"], without: Sequence[int]
) -> Int[np.ndarray, " ranked"]:
    """The words by their cosine to a vector, the nearest first, without some of them."""
    near = unit(vectors) @ unit(goal)
    order = np.argsort(-near, kind="stable")
    return order[~np.isin(order, list(without))]


def answer(
    vectors: Float[np.ndarray, "word dim"], a: int, b: int, c: int
) -> Int[np.ndarray, " ranked"]:
    """The words nearest to c + b - a, of vectors of length 1, without a, b and c (Mikolov et al.
    2013)."""
    units = unit(vectors)
    return ranked(units, units[c] + units[b] - units[a], (a, b, c))


def right(
    vectors: Float[np.ndarray, "word dim"],
    analogies: Sequence[Analogy],
    twins: Mapping[int, Set[int]] | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """Whether each analogy is answered, and whether it would be without the offset.

    Args:
        twins: the words that no answer may be, by given word, itself among them; by default each
            word has itself alone.
        seed: seed of the shuffling.

    Returns:
        True or False for each analogy: "c + b - a"; "shuffled", the same with the b of another
        analogy; "c alone" and "b alone", the nearest to one of the given words (Linzen 2016). And
        "chance": the probability that a random word is right.
    """
    other = np.random.default_rng(seed).permutation(len(analogies))
    units = unit(vectors)
    scores: dict[str, list[float]] = {
        name: [] for name in ("c + b - a", "shuffled", "c alone", "b alone", "chance")
    }
    for analogy, shuffled in zip(analogies, other.tolist(), strict=True):
        a, b, c = analogy.a, analogy.b, analogy.c
        without = {word for one in (a, b, c) for word in (twins or {}).get(one, {one})}
        goals = {
            "c + b - a": units[c] + units[b] - units[a],
            "shuffled": units[c] + units[analogies[shuffled].b] - units[a],
            "c alone": units[c],
            "b alone": units[b],
        }
        for name, goal in goals.items():
            nearest = ranked(units, goal, list(without))[0]
            scores[name].append(float(int(nearest) in analogy.answers))
        scores["chance"].append(len(analogy.answers - without) / (len(vectors) - len(without)))
    return {name: np.array(values) for name, values in scores.items()}
