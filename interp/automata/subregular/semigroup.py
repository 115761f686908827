"""The syntactic monoid of an automaton, and the categories in which windows of k are decided.

Whether a language depends on factors of ``k`` symbols is a question about paths in the graph whose
vertices are the words of k-1 symbols and whose edges are the words of k symbols (Thérien and Weiss
1985; Straubing 1985; Tilson 1987). An arrow from v to u is what the words x, such that vx ends in
u, do to the states that v leads to. A class with some window holds equations for the arrows between
idempotents; with windows of k it holds the same equations for the arrows between words of k-1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool, Int
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

Table = Int[np.ndarray, "states letters"]
Elements = Int[np.ndarray, "_"]
"""Numbers of elements of a monoid."""


@dataclass(frozen=True)
class Arrows:
    """Arrows from a vertex v to a vertex u.

    Attributes:
        acts: the element of v x for each arrow x: two words are one arrow if these are equal.
        steps: the element of a word x.
    """

    acts: Elements
    steps: Elements


@dataclass(frozen=True)
class Monoid:
    """The actions of words on the states of a minimal automaton; element 0 is the empty word.

    Attributes:
        table: the product of each element (row) with each element (column).
        letters: the elements of the letters.
    """

    table: Int[np.ndarray, "elements elements"]
    letters: Elements

    @classmethod
    def of(cls, delta: Table, most: int) -> Monoid | None:
        """The monoid of a table of transitions; None if it has more than ``most`` elements."""
        maps = [np.arange(len(delta))]
        number = {maps[0].tobytes(): 0}
        right: list[list[int]] = []
        for image in maps:
            row = []
            for target in np.ascontiguousarray(delta[image].T):
                index = number.setdefault(target.tobytes(), len(maps))
                if index == len(maps):
                    maps.append(target)
                row.append(index)
            right.append(row)
            if len(maps) > most:
                return None
        times = np.array(right)
        by_right = np.empty((len(maps), len(maps)), dtype=np.int32)
        by_right[0] = np.arange(len(maps))
        filled = {0}
        for parent, row in enumerate(
            right
        ):  # breadth first: a parent is filled before its children
            for letter, child in enumerate(row):
                if child not in filled:
                    filled.add(child)
                    by_right[child] = times[by_right[parent], letter]
        return cls(np.ascontiguousarray(by_right.T), times[0])

    @cached_property
    def powers(self) -> Elements:
        """A power of each element, with an exponent of at least the number of elements."""
        power = np.arange(len(self.table))
        for _ in range(len(self.table).bit_length()):
            power = self.table[power, power]
        return power

    @cached_property
    def aperiodic(self) -> bool:
        """Holds each element x^n = x^(n+1)? So it does if and only if the language is star-free.

        Schützenberger 1965.
        """
        return bool((self.table[self.powers, np.arange(len(self.table))] == self.powers).all())

    @cached_property
    def j_classes(self) -> Elements:
        """The J-class of each element: those that are factors of each other."""
        size = len(self.table)
        sources = np.tile(np.arange(size), 2 * len(self.letters))
        after = [self.table[:, letter] for letter in self.letters]
        before = [self.table[letter] for letter in self.letters]
        edges = csr_matrix((np.ones(len(sources)), (sources, np.concatenate(after + before))))
        labels: Elements = connected_components(edges, connection="strong")[1]
        return labels

    @property
    def j_trivial(self) -> bool:
        """Is each element a J-class of its own? So it is if and only if the language is piecewise
        testable (Simon 1975)."""
        return len(np.unique(self.j_classes)) == len(self.table)

    @cached_property
    def idempotents(self) -> list[int]:
        """One idempotent of each J-class that has any; that of the empty word counts only if some
        other word does nothing, too."""
        size = len(self.table)
        squares = np.flatnonzero(self.table[np.arange(size), np.arange(size)] == np.arange(size))
        nonempty = np.unique(self.table[:, self.letters])
        squares = squares[np.isin(squares, nonempty)]
        first = np.unique(self.j_classes[squares], return_index=True)[1]
        return [int(e) for e in squares[first]]

    def between(self, v: int, u: int) -> Arrows:
        """The arrows of all words that end in u, from v."""
        acts, first = np.unique(self.table[self.table[v], u], return_index=True)
        return Arrows(acts, self.table[first, u])

    def in_the_limit(self, loops: bool) -> Iterator[tuple[Arrows, Arrows]]:
        """The arrows between any two idempotents, forth and back.

        Idempotents of one J-class have the same arrows, so that one of them is enough.

        Args:
            loops: only those from an idempotent to itself.
        """
        for v in self.idempotents:
            for u in [v] if loops else self.idempotents:
                yield self.between(v, u), self.between(u, v)

    def at_window(self, k: int, loops: bool) -> Iterator[tuple[Arrows, Arrows]]:
        """The arrows between any two words v and u of k-1 letters, forth and back.

        Words x of k-1 letters or more are the same arrows for all v and u of the same elements;
        shorter words are listed by themselves, where no longer word does the same.

        Args:
            loops: only those from a word to itself.
        """
        levels = self._levels(2 * k - 2)
        ends = levels[k - 1]
        kinds, kind = np.unique(ends, return_inverse=True)
        long = {
            (v, u): self.between(int(kinds[v]), int(kinds[u]))
            for v in range(len(kinds))
            for u in range(len(kinds))
            if not loops or u == v
        }
        yield from ((arrows, long[key[::-1]]) for key, arrows in long.items())
        short = self._short(levels, kind, long, loops)
        seen = set()
        for v, u in sorted(short.keys() | {(u, v) for v, u in short}):
            forth, back = short.get((v, u), {}), short.get((u, v), {})
            key = (kind[v], kind[u], frozenset(forth), frozenset(back))
            if key not in seen:
                seen.add(key)
                yield _with(long[key[:2]], forth), _with(long[key[1::-1]], back)

    def _levels(self, longest: int) -> list[Elements]:
        """The elements of all words of each length below ``longest``, in the order of letters."""
        levels = [np.zeros(1, dtype=np.int32)]
        for _ in range(longest - 1):
            levels.append(self.table[levels[-1]][:, self.letters].ravel())
        return levels

    def _short(
        self,
        levels: list[Elements],
        kind: Int[np.ndarray, " vertices"],
        long: dict[tuple[int, int], Arrows],
        loops: bool,
    ) -> dict[tuple[int, int], dict[int, int]]:
        """Arrows of fewer than k-1 letters that are none of longer words: act and step."""
        vertices, size, width = len(kind), len(self.table), int(kind.max()) + 1
        codes = np.concatenate([(v * width + u) * size + x.acts for (v, u), x in long.items()])
        short: dict[tuple[int, int], dict[int, int]] = {}
        for length, acts in enumerate(levels[len(levels) // 2 :]):
            index = np.arange(len(acts))
            v, u = index // len(levels[length]), index % vertices
            if loops:
                index = index[v == u]
                v, u, acts = v[index], u[index], acts[index]
            new = ~np.isin((kind[v] * width + kind[u]) * size + acts, codes)
            steps = levels[length][index % len(levels[length])]
            rows = np.stack([v, u, acts, steps], axis=1)[new].tolist()
            for one, other, act, step in rows:
                short.setdefault((one, other), {})[act] = step
        return short


def _with(arrows: Arrows, more: dict[int, int]) -> Arrows:
    """Arrows, and others by act and step."""
    if not more:
        return arrows
    acts = np.concatenate([arrows.acts, np.array([*more], dtype=np.int32)])
    steps = np.concatenate([arrows.steps, np.array([*more.values()], dtype=np.int32)])
    return Arrows(acts, steps)


def table_of(dfa: DFA, letters: Sequence[str]) -> tuple[Table, Bool[np.ndarray, " states"]]:
    """The state after each state and letter, and which states accept.

    Args:
        dfa: its states are numbered from the start, 0, as ``canonical`` numbers them.
    """
    rows: dict[Any, Mapping[str, Any]] = dict(dfa.transitions)
    delta = np.array([[rows[q][s] for s in letters] for q in range(len(rows))])
    return delta, np.isin(np.arange(len(rows)), list(dfa.final_states))


def cyclic(delta: Table) -> int | None:
    """The modulus, if a sum of the letters' weights modulo a number decides; None if none does.

    So it is if the letters are permutations of the states, each a power of one cycle of them all.
    """
    size = len(delta)
    letters = [column for column in delta.T if len(np.unique(column)) == size]
    commute = all((x[y] == y[x]).all() for x in letters for y in letters)
    if size == 1 or len(letters) < delta.shape[1] or not commute:
        return None
    # An abelian group that moves the start to every state has one element for each state.
    ways = {0: np.arange(size)}
    queue = [0]
    for state in queue:
        for column in letters:
            if int(column[state]) not in ways:
                ways[int(column[state])] = column[ways[state]]
                queue.append(int(column[state]))
    return size if any(_order(way) == size for way in ways.values()) else None


def _order(permutation: Int[np.ndarray, " states"]) -> int:
    """The number of times after which a permutation leads back."""
    power, order = permutation, 1
    while (power != np.arange(len(power))).any():
        power, order = permutation[power], order + 1
    return order
