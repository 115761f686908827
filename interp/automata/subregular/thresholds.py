"""The threshold of an LTT language: the number up to which factors have to be counted."""

from __future__ import annotations

from graphlib import TopologicalSorter
from itertools import count

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from interp.automata.subregular.semigroup import Arrows, Monoid, Table

MOST_NODES = 1 << 22
MOST_LABELS = 100_000
"""Beyond so many nodes, or ways of counting the factors, the threshold is not decided."""
Count = tuple[int, ...]
"""The factors that occurred at least 1, 2, ..., t times, a bit each."""


def threshold(monoid: Monoid, delta: Table, k: int) -> int | None:
    """The smallest t such that factors of k, counted up to t, decide; None if it is not decided.

    For a language that is LTT with windows of k. There words with the same factors, each the same
    number of times, and with the same ends lead to the same state (Thérien and Weiss 1985; Pevzner
    1995 on Eulerian trails). So t is too small if and only if, after some word, a circle of
    factors that occurred t times each leads to another state. That is so if a loop has x^t other
    than x^(t+1); if none has, t may still be too small, but t+1 is not.
    """
    t = max(_index(monoid, loops) for loops, _ in monoid.at_window(k, loops=True))
    if len(delta) * delta.shape[1] ** k > MOST_NODES:
        return None
    factors = _Factors(delta, k)
    overflows = bool(factors.overflows(t, exact=False)) and factors.overflows(t, exact=True)
    return None if overflows is None else t + overflows


def _index(monoid: Monoid, loops: Arrows) -> int:
    """The smallest t such that x^t = x^(t+1) for every loop."""
    powers = loops.acts
    for t in count(1):
        after = monoid.table[powers, loops.steps]
        if (after == powers).all():
            return t
        powers = after
    raise AssertionError("unreachable")


class _Factors:
    """The automaton beside the last k-1 symbols: its strong components, and the ways out of them.

    A factor inside a component may occur as often as one likes before the component is left: it
    counts as if it had occurred t times.
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
        self.order = self.in_order()

    def in_order(self) -> list[int]:
        """The components that can be reached, each after those that lead to it."""
        queue, before = list(self.starts), {start: set[int]() for start in self.starts}
        for component in queue:
            for _, target in self.part(component)[1]:
                if target not in before:
                    before[target] = set()
                    queue.append(target)
                before[target].add(component)
        return list(TopologicalSorter(before).static_order())

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

    def overflows(self, t: int, exact: bool) -> bool | None:
        """Does a circle of factors that occurred t times each lead to another state?

        None if there are too many ways of counting.

        Args:
            exact: look at all ways of counting. Else look, at every component, only at the most
                occurrences of every factor on any way: then False is sure, and True is not.
        """
        counts: dict[int, set[Count]] = {start: {(0,) * t} for start in self.starts}
        labels = 0
        for component in self.order:
            inside, exits = self.part(component)
            labels += len(counts[component])
            if labels > MOST_LABELS:
                return None
            for way in {tuple(x | inside for x in way) for way in counts.pop(component)}:
                for factor, target in exits:
                    if way[-1] >> factor & 1 and self.circle(factor, way[-1]):
                        return True
                    more = _with(way, factor)
                    if not exact:
                        for other in counts.pop(target, set()):
                            more = tuple(x | y for x, y in zip(more, other, strict=True))
                    counts.setdefault(target, set()).add(more)
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


def _with(count: Count, factor: int) -> Count:
    """The count after one more occurrence of a factor."""
    level = next((i for i, bits in enumerate(count) if not bits >> factor & 1), None)
    if level is None:
        return count
    return (*count[:level], count[level] | 1 << factor, *count[level + 1 :])
