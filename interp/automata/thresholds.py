"""How far the factors of a word have to be counted: the threshold of an LTT language."""

from __future__ import annotations

from itertools import count

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from interp.automata.semigroup import Table

MOST_NODES = 1 << 22
MOST_LABELS = 100_000
"""Beyond so many nodes, or ways of counting the factors, the threshold is not decided."""
Label = tuple[int, int, tuple[tuple[int, int], ...]]
"""A component, the factors that may occur as often as one likes (a bit each), and the others with
the number of their occurrences."""


def threshold(delta: Table, k: int) -> int | None:
    """The smallest t such that factors of k, counted up to t, decide; None if it is not decided.

    For a language that is LTT with windows of k. There words with the same factors, each the same
    number of times, and with the same ends lead to the same state (Thérien and Weiss 1985; Pevzner
    1995 on Eulerian trails). So t is too small if and only if, after some word, a circle of
    factors that occurred t times each leads to another state.
    """
    if len(delta) * delta.shape[1] ** k > MOST_NODES:
        return None
    factors = _Factors(delta, k)
    for t in count(1):
        overflows = factors.overflow(t)
        if not overflows:
            return None if overflows is None else t
    raise AssertionError("unreachable")


class _Factors:
    """The automaton beside the last k-1 symbols: its strong components, and the ways out of them.

    A factor inside a component may occur as often as one likes before the component is left.
    """

    def __init__(self, delta: Table, k: int) -> None:
        states, self.letters = delta.shape
        self.vertices = self.letters ** (k - 1)
        after = np.zeros(1, dtype=int)
        for _ in range(k - 1):
            after = delta[after].ravel()
        node = np.arange(self.vertices * states)
        self.factor = (node // states)[:, None] * self.letters + np.arange(self.letters)
        target = self.factor % self.vertices * states + delta[node % states]
        ends = node.repeat(self.letters), target.ravel()
        edges = csr_matrix((np.ones(target.size), ends), shape=(len(node), len(node)))
        component = connected_components(edges, connection="strong")[1]
        self.starts = np.unique(component[np.arange(self.vertices) * states + after]).tolist()
        self.target = component[target]
        self.nodes = np.argsort(component, kind="stable")
        self.bounds = np.searchsorted(component[self.nodes], np.arange(component.max() + 2))
        self.parts: dict[int, tuple[int, list[tuple[int, int]]]] = {}

    def part(self, component: int) -> tuple[int, list[tuple[int, int]]]:
        """The factors inside a component, a bit each; and those that lead out, with where to."""
        if component not in self.parts:
            nodes = self.nodes[slice(*self.bounds[component : component + 2])]
            factor, target = self.factor[nodes].ravel(), self.target[nodes].ravel()
            inside = sum(1 << f for f in set(factor[target == component].tolist()))
            leave = target != component
            ways = set(zip(factor[leave].tolist(), target[leave].tolist(), strict=True))
            self.parts[component] = inside, sorted(ways)
        return self.parts[component]

    def overflow(self, t: int) -> bool | None:
        """Does a circle of factors that occurred t times each lead to another state?

        None if there are too many ways of counting.
        """
        queue: list[Label] = [(start, 0, ()) for start in self.starts]
        seen = set(queue)
        for component, free, counts in queue:
            inside, ways = self.part(component)
            free |= inside
            rest = {factor: times for factor, times in counts if not free >> factor & 1}
            full = free | sum(1 << factor for factor, times in rest.items() if times >= t)
            for factor, target in ways:
                if full >> factor & 1 and self.circle(factor, full):
                    return True
                more = {} if free >> factor & 1 else {factor: min(t, rest.get(factor, 0) + 1)}
                label = target, free, tuple(sorted((rest | more).items()))
                if label not in seen:
                    seen.add(label)
                    queue.append(label)
            if len(queue) > MOST_LABELS:
                return None
        return False

    def circle(self, factor: int, full: int) -> bool:
        """Is the factor on a circle of these factors?"""
        queue = [factor % self.vertices]
        for vertex in queue:
            if vertex == factor // self.letters:
                return True
            for after in range(vertex * self.letters, (vertex + 1) * self.letters):
                if full >> after & 1 and after % self.vertices not in queue:
                    queue.append(after % self.vertices)
        return False
