"""Weighted context-free grammars, as their productions say them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from models.errors import UserError


@dataclass(frozen=True)
class Nonterminal:
    """A symbol that productions rewrite. A symbol of the language is a plain string."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Production:
    """One way to rewrite a nonterminal.

    Attributes:
        left: the nonterminal that is rewritten.
        right: the parts that it becomes; empty for the empty word.
        weight: how often, relative to the other productions of ``left``.
        line: the line of the text that it was read from; 0 if it was not read.
    """

    left: Nonterminal
    right: tuple[Nonterminal | str, ...]
    weight: float = 1.0
    line: int = 0

    def __str__(self) -> str:
        right = " ".join(repr(part) if isinstance(part, str) else str(part) for part in self.right)
        return f"{self.left} -> {right}".rstrip()


@dataclass(frozen=True)
class Grammar:
    """A weighted context-free grammar. It begins with the left side of its first production.

    Attributes:
        productions: the productions, in their order.
        others: symbols of the language that no production names.

    Raises:
        UserError: a nonterminal has no production, is of no use, makes no word that ends, or can
            become itself alone; the error names the line.
    """

    productions: tuple[Production, ...]
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rules = self.by_left
        for production in self.productions:
            for part in production.right:
                if isinstance(part, Nonterminal) and part not in rules:
                    raise _fault(
                        production,
                        f"{part} has no production: give it one, or put it in quotes if it is a "
                        "symbol of the language",
                    )
        reached, queue = {self.start}, [self.start]
        while queue:
            parts = {part for rule in rules[queue.pop()] for part in rule.right} - reached
            new = [part for part in parts if isinstance(part, Nonterminal)]
            reached.update(new)
            queue.extend(new)
        for left, group in rules.items():
            if left not in reached:
                raise _fault(group[0], f"nothing leads from {self.start} to {left}: leave it out")
        ending = self._closed(lambda part: isinstance(part, str))
        for left, group in rules.items():
            if left not in ending:
                raise _fault(
                    group[0], f"no word ever comes of {left}: give it a production that ends"
                )
        if not self.symbols:
            raise UserError("there are no symbols: write them in quotes, as in S -> 'a' S")
        empty = self._closed(lambda part: False)
        for left in rules:
            self._check_chain(left, empty)

    @property
    def start(self) -> Nonterminal:
        return self.productions[0].left

    @property
    def by_left(self) -> dict[Nonterminal, list[Production]]:
        """The productions of each nonterminal, in their order."""
        groups: defaultdict[Nonterminal, list[Production]] = defaultdict(list)
        for production in self.productions:
            groups[production.left].append(production)
        return dict(groups)

    @property
    def chomsky(self) -> Literal["finite", "regular", "context-free"]:
        """Its type, by its productions: finite where none comes back to its left side, and regular
        where no nonterminal embeds itself, with symbols on both sides (Chomsky 1959).

        A grammar that embeds may make a regular language too; whether it does is undecidable.
        """
        leads = {
            left: {part for rule in rules for part in rule.right if isinstance(part, Nonterminal)}
            for left, rules in self.by_left.items()
        }
        for via, left in product(leads, leads):
            leads[left] |= leads[via] if via in leads[left] else set()
        silent = leads.keys() - self._closed(lambda part: isinstance(part, str), any)
        grows: defaultdict[frozenset[Nonterminal], set[str]] = defaultdict(set)
        for rule in self.productions:
            for at, part in enumerate(rule.right):
                if isinstance(part, Nonterminal) and rule.left in leads[part]:
                    loop = frozenset(other for other in leads[part] if part in leads[other])
                    sides = {"left": rule.right[:at], "right": rule.right[at + 1 :]}
                    grows[loop] |= {side for side in sides if not silent.issuperset(sides[side])}
        if not grows:
            return "finite"
        return "context-free" if max(map(len, grows.values())) > 1 else "regular"

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the language, sorted."""
        parts = (part for production in self.productions for part in production.right)
        return tuple(sorted({*self.others, *(part for part in parts if isinstance(part, str))}))

    @property
    def word_classes(self) -> dict[str, frozenset[str]]:
        """The names of all nonterminals that become a symbol alone, for each such symbol.

        Symbols of the same classes stand in the same places, though perhaps not equally often.
        """
        classes: defaultdict[str, set[str]] = defaultdict(set)
        for production in self.productions:
            if len(production.right) == 1 and isinstance(production.right[0], str):
                classes[production.right[0]].add(str(production.left))
        return {symbol: frozenset(names) for symbol, names in sorted(classes.items())}

    def probability(self, production: Production) -> float:
        """The weight of a production among those of its left side, 0 to 1."""
        total = sum(rule.weight for rule in self.by_left[production.left])
        return production.weight / total

    def __str__(self) -> str:
        """The productions in the notation of ``reading.read``."""
        lines = []
        for left, rules in self.by_left.items():
            weighted = len({rule.weight for rule in rules}) > 1
            sides = [
                str(rule).partition("->")[2].strip()
                + (f" [{self.probability(rule):.3g}]" if weighted else "")
                for rule in rules
            ]
            lines.append(f"{left} -> " + " | ".join(sides))
        return "\n".join(lines)

    def _closed(
        self, test: Callable[[object], bool], of: Callable[[Iterable[bool]], bool] = all
    ) -> set[Nonterminal]:
        """The nonterminals of which something comes whose parts all pass the test, or any part."""
        closed: set[Nonterminal] = set()
        while True:
            grown = {
                rule.left
                for rule in self.productions
                if of(test(part) or part in closed for part in rule.right)
            }
            if grown == closed:
                return closed
            closed = grown

    def _check_chain(self, left: Nonterminal, empty: set[Nonterminal]) -> None:
        """Refuses a nonterminal that becomes itself alone: it has infinitely many trees."""
        visited: set[Nonterminal] = set()
        queue: list[Production] = list(self.by_left[left])
        while queue:
            rule = queue.pop()
            for at, part in enumerate(rule.right):
                rest = rule.right[:at] + rule.right[at + 1 :]
                if isinstance(part, str) or any(piece not in empty for piece in rest):
                    continue
                if part == left:
                    raise _fault(
                        rule, f"{left} can become {left} alone, again and again: leave that out"
                    )
                if part not in visited:
                    visited.add(part)
                    queue.extend(self.by_left[part])


def _fault(production: Production, message: str) -> UserError:
    where = f"line {production.line}: " if production.line else ""
    return UserError(f"{where}{message}")


def grammar_of(rules: Sequence[tuple[str, str, float]], others: Sequence[str] = ()) -> Grammar:
    """A grammar from its productions: left side, right side, and weight.

    In a right side, words in quotes are symbols of the language: ("S", "'a' S 'b'", 0.4).

    Args:
        others: symbols that no production names.
    """
    productions = []
    for left, right, weight in rules:
        parts = [
            part.strip("'") if part.startswith("'") else Nonterminal(part) for part in right.split()
        ]
        productions.append(Production(Nonterminal(left), tuple(parts), weight))
    return Grammar(tuple(productions), tuple(others))
