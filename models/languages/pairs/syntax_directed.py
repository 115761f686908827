"""Transductions by a grammar whose productions make source and target at once.

Such a grammar is a syntax-directed translation in which the parts of a production keep their order
(Lewis and Stearns 1968). Its symbols say what they give to each side: ``a>x`` gives a to the source
and x to the target, ``a>`` gives a to the source alone, and ``>x`` gives x to the target alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice

import numpy as np

from models.errors import UserError
from models.languages.grammars.context_free import ContextFreeLanguage
from models.languages.grammars.lengths import ByLength
from models.languages.grammars.normal_form import normal_form
from models.languages.grammars.productions import Grammar, Nonterminal, Production
from models.languages.grammars.trees import Tree
from models.languages.language import ChomskyType
from models.languages.pairs.transduction import Alignment, Transduction
from models.languages.vocabulary import BORDER, END_ID, Word, Words

SOURCE, TARGET = "<", ">"
"""The beginnings of symbols of one side alone, in the grammar that draws pairs."""
FAR = 500
"""The longest pairs among which short ones are looked for."""


@dataclass(frozen=True)
class _Sides:
    """The parts that a symbol gives to source and target; None gives nothing."""

    source: str | None
    target: str | None

    @classmethod
    def of(cls, symbol: str) -> _Sides:
        """Raises UserError if the symbol has no border, or more than one, or nothing beside it."""
        source, border, target = symbol.partition(BORDER)
        if not border or BORDER in target or not (source or target):
            raise UserError(
                f"the symbol {symbol!r} of a grammar of pairs needs one {BORDER}: write "
                f"'a{BORDER}x' for both sides, 'a{BORDER}' for the source alone, '{BORDER}x' for "
                f"the target alone. In a grammar of words no symbol has a {BORDER}"
            )
        return cls(source or None, target or None)


def is_of_pairs(grammar: Grammar) -> bool:
    """Does any symbol of the grammar say what it gives to each side?"""
    return any(BORDER in symbol and symbol != BORDER for symbol in grammar.symbols)


class SyntaxDirected(Transduction):
    """All pairs that a grammar makes.

    A target symbol that has a source symbol beside it (``a>x``) comes from that one. One that
    stands alone comes from the nearest source symbol alone (``a>``) to its left in its production;
    without one, from all that the production covers in the source.

    Args:
        grammar: its symbols say what they give to each side.
        each: the number of symbols of a pair for each source symbol, where that is always the same:
            the size of a pair is then the length of its source. Otherwise 0, and the size is the
            length of the pair.
        more: the number of symbols of a pair beside these and the border.

    Raises:
        UserError: a symbol is not of this kind; or two productions differ in their targets alone,
            so that a source could have two targets.
    """

    source: ContextFreeLanguage

    def __init__(
        self,
        name: str,
        grammar: Grammar,
        rule: str | None = None,
        chomsky: ChomskyType = "mildly context-sensitive",
        each: int = 0,
        more: int = 0,
    ) -> None:
        self.grammar, self.each, self.more, self.chomsky = grammar, each, more, chomsky
        self._sides_of = {symbol: _Sides.of(symbol) for symbol in grammar.symbols}
        if not any(sides.source for sides in self._sides_of.values()):
            raise UserError(
                f"no symbol gives anything to the source: write 'a{BORDER}x' or 'a{BORDER}'"
            )
        self._made_by: dict[tuple[Nonterminal, tuple[object, ...]], Production] = {}
        sources = []
        for production in grammar.productions:
            right = tuple(self._on_source(production))
            if (production.left, right) in self._made_by:
                raise UserError(
                    f"two productions of {production.left} have one source and two targets: a "
                    "source must decide its target"
                )
            self._made_by[production.left, right] = production
            sources.append(Production(production.left, right, production.weight))
        source = ContextFreeLanguage(name, Grammar(tuple(sources)))
        targets = {sides.target for sides in self._sides_of.values() if sides.target}
        others = sorted(targets - set(source.vocabulary.symbols))
        super().__init__(name, source, others, rule)
        form = normal_form(self._drawn)
        self._by_length = ByLength(form)
        shortest = list(islice((n for n in range(1, FAR) if self._has_member(n)), 3))
        self.short = max(self.short, *shortest)
        marks = self._drawn.symbols
        self._of_source = np.array([mark.startswith(SOURCE) for mark in marks])
        self._ids = np.array([self.vocabulary.ids[mark[1:]] for mark in marks])
        self._translated = lru_cache(maxsize=2**14)(self._translate)

    @property
    def productions(self) -> tuple[str, ...]:
        """The grammar's own: ``a>x`` is an a of the source and an x of the target."""
        return tuple(map(str, self.grammar.productions))

    def _on_source(self, production: Production) -> Iterator[Nonterminal | str]:
        """The right side as far as it makes the source."""
        for part in production.right:
            if isinstance(part, Nonterminal):
                yield part
            elif source := self._sides_of[part].source:
                yield source

    @cached_property
    def _drawn(self) -> Grammar:
        """The grammar of the symbols of both sides, in the order of the productions: a word of it
        is as long as its pair without the border."""
        rules = []
        for production in self.grammar.productions:
            right = list[Nonterminal | str]()
            for part in production.right:
                if isinstance(part, Nonterminal):
                    right.append(part)
                    continue
                sides = self._sides_of[part]
                right += [SOURCE + sides.source] if sides.source else []
                right += [TARGET + sides.target] if sides.target else []
            rules.append(Production(production.left, tuple(right), production.weight))
        return Grammar(tuple(rules))

    # -- the truth ------------------------------------------------------------------------------

    def _translate(self, source: Word) -> tuple[Word, Alignment]:
        """Target and alignment, along the derivation of the source."""
        tree = next(self.source.trees(source))
        target, places = list[str](), list[tuple[int, ...]]()
        waiting: list[Tree | tuple[str, tuple[int, ...]]] = [tree]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Tree):
                waiting += reversed(list(self._parts(part)))
            else:
                target.append(part[0])
                places.append(part[1])
        return tuple(target), tuple(places)

    def _parts(self, tree: Tree) -> Iterator[Tree | tuple[str, tuple[int, ...]]]:
        """Trees below a node, and the target symbols between them with their source places."""
        right = tuple(c.label if isinstance(c, Tree) else c for c in tree.children)
        children, at = iter(tree.children), tree.begin
        alone: int | None = None
        for part in self._made_by[tree.label, right].right:
            if isinstance(part, Nonterminal):
                child = next(children)
                assert isinstance(child, Tree)
                yield child
                at = child.end
                continue
            sides, place = self._sides_of[part], at
            if sides.source:
                next(children)
                at += 1
            if sides.source and not sides.target:
                alone = place
            if sides.target:
                if sides.source:
                    yield sides.target, (place,)
                elif alone is not None:
                    yield sides.target, (alone,)
                else:
                    yield sides.target, tuple(range(tree.begin, tree.end))

    def target(self, source: Word) -> Word:
        return self._translated(source)[0]

    def alignment(self, source: Word) -> Alignment:
        return self._translated(source)[1]

    # -- data -----------------------------------------------------------------------------------

    def length_of(self, n: int) -> int:
        return self.each * n + 1 + self.more if self.each else n

    def size_of(self, length: int) -> int | None:
        if not self.each:
            return length
        n, rest = divmod(length - 1 - self.more, self.each)
        return n if n > 0 and not rest else None

    def _longest_source(self, length: int) -> int:
        return self.size_of(length) or 0 if self.each else length - 1

    def _has_member(self, length: int) -> bool:
        return length > 1 and self._by_length.has(length - 1)

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Draws pairs of these lengths by the weights of the grammar."""
        drawn = self._by_length.draw(rng, lengths - 1)
        ids = np.full((len(lengths), int(lengths.max(initial=0))), END_ID)
        for row, marks in enumerate(drawn):
            marks = marks[marks >= 0]
            tokens, first = self._ids[marks], self._of_source[marks]
            ids[row, : lengths[row]] = [*tokens[first], self.border, *tokens[~first]]
        return Words.of_rows(ids, lengths)
