"""The derivations of a word by a grammar, as trees, and as what a stack holds on the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from models.languages.grammars.productions import Grammar, Nonterminal
from models.languages.vocabulary import Word

Part = Nonterminal | str
Row = tuple[Part, ...]


@dataclass(frozen=True)
class Tree:
    """A nonterminal with the parts that it became.

    Attributes:
        label: the nonterminal.
        children: trees, and symbols of the word; none for the empty word.
        begin: the position of its first symbol, from 0.
        end: the position after its last one.
    """

    label: Nonterminal
    children: tuple[Tree | str, ...]
    begin: int
    end: int

    def __str__(self) -> str:
        """The tree in brackets: (S (NP de hond) (VP loopt))."""
        return f"({self.label}{''.join(f' {child}' for child in self.children)})"

    def stacks(self) -> list[tuple[str, ...]]:
        """The stacks of a pushdown automaton, that is, the parts that it still has to read, top
        first: before the first symbol, and after each one."""
        stacks: list[tuple[str, ...]] = []

        def read(part: Tree | str, rest: tuple[str, ...]) -> None:
            if isinstance(part, str):
                stacks.append(rest)
                return
            names = [c if isinstance(c, str) else str(c.label) for c in part.children]
            for at, child in enumerate(part.children):
                read(child, (*names[at + 1 :], *rest))

        read(self, ())
        return [(str(self.label),), *stacks]


def tree_distances(tree: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Edges between each two symbols of a word in its tree, [pos, pos]; and between each and the
    root, [pos]."""
    paths: dict[int, list[int]] = {}  # the nodes above each symbol, the root first, and its own
    count = 0

    def walk(part: Tree, above: list[int]) -> None:
        nonlocal count
        above, at = [*above, count], part.begin
        count += 1
        for child in part.children:
            if isinstance(child, Tree):
                walk(child, above)
                at = child.end
            else:
                paths[at] = [*above, count]
                count += 1
                at += 1

    walk(tree, [])
    return distances([paths[at] for at in range(tree.end)])


def distances(paths: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Edges between each two symbols in a tree, [pos, pos]; and between each and the root, [pos].

    Args:
        paths: the nodes on the way to each symbol: the root first, and the symbol's own last.
    """
    sizes = np.array([len(path) for path in paths])
    shared = np.array(
        [
            [sum(x == y for x, y in zip(one, other, strict=False)) for other in paths]
            for one in paths
        ]
    ).reshape(len(paths), len(paths))
    return sizes[:, None] + sizes - 2 * shared, sizes - 1


def embedding(tree: Tree) -> int:
    """The degree of self-embedding: how deep parts of one kind stand in the middle of each other.

    It is 0 for a sentence without relative clauses, 1 for one whose subject has one, 2 if the
    subject of that clause has one too. A part that begins or ends the outer one does not count. The
    name of a nonterminal ends at ``_``; the rest of it is a feature, as gender or number, and makes
    no other kind.
    """
    deepest = 0
    stack: list[tuple[Tree, tuple[tuple[Tree, int], ...]]] = [(tree, ())]
    while stack:
        part, above = stack.pop()
        inside = (
            depth + 1
            for outer, depth in above
            if _kind(outer) == _kind(part) and outer.begin < part.begin and part.end < outer.end
        )
        depth = max(inside, default=0)
        deepest = max(deepest, depth)
        for child in part.children:
            if isinstance(child, Tree):
                stack.append((child, (*above, (part, depth))))
    return deepest


def _kind(tree: Tree) -> str:
    return tree.label.name.partition("_")[0]


class Derivations:
    """The derivations of one word."""

    def __init__(self, grammar: Grammar, word: Word) -> None:
        self.grammar, self.word = grammar, word
        self._rules = grammar.by_left
        self._ends: defaultdict[tuple[Part, int], set[int]] = defaultdict(set)
        for at, symbol in enumerate(word):
            self._ends[symbol, at].add(at + 1)
        for begin in range(len(word), -1, -1):
            self._fill(begin)

    def _fill(self, begin: int) -> None:
        """Finds where everything ends that begins here; what begins later is known."""
        grows = True
        while grows:
            grows = False
            for rule in self.grammar.productions:
                if rule.right and not self._ends.get((rule.right[0], begin)):
                    continue  # the most common case: its first part does not begin here
                ends = self._ends[rule.left, begin]
                if new := self._of_row(rule.right, begin) - ends:
                    ends |= new
                    grows = True

    def _of_row(self, row: Row, begin: int) -> set[int]:
        """The positions where a row of parts can end that begins here."""
        ends = {begin}
        for part in row:
            ends = {end for at in ends for end in self._ends.get((part, at), ())}
        return ends

    def trees(self) -> Iterator[Tree]:
        """All derivations, one after the other."""
        yield from self._trees(self.grammar.start, 0, len(self.word))

    def _trees(self, left: Nonterminal, begin: int, end: int) -> Iterator[Tree]:
        if end in self._ends[left, begin]:
            for rule in self._rules[left]:
                for children in self._rows(rule.right, begin, end):
                    yield Tree(left, children, begin, end)

    def _rows(self, row: Row, begin: int, end: int) -> Iterator[tuple[Tree | str, ...]]:
        """All ways in which a row of parts makes a stretch of the word."""
        if not row:
            if begin == end:
                yield ()
            return
        part, rest = row[0], row[1:]
        for cut in sorted(self._ends.get((part, begin), ())):
            if end not in self._of_row(rest, cut):
                continue
            firsts = [part] if isinstance(part, str) else self._trees(part, begin, cut)
            for first in firsts:
                for tail in self._rows(rest, cut, end):
                    yield (first, *tail)
