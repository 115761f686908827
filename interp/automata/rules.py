"""Rules in words: families of regular languages, each with its automaton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from automata.fa.dfa import DFA

from interp.automata.extraction import MOST_LISTED

OPPOSITES = {"contains": "never", "side by side": "never", "never": "never?"}
OPPOSITES |= {"all": "none", "none": "all"}
FAMILIES = 17
"""So many families there are: those that ``Rule`` names."""


@dataclass(frozen=True)
class Rule:
    """A language with a name.

    Attributes:
        family: "contains", "side by side", "starts", "ends", "same ends", "at least", "at most",
            "exactly", "even", "never", "before", "only", "and", "or", "xor", "all" or "none".
        text: what a word that obeys it does; it completes "a word is accepted if it ...".
        denial: what a word that does not obey it does.
        size: how many parts it has: its symbols, and words such as "not" and "or" between them.
        dfa: its complete automaton.
        counts: the numbers that it names, such as the 8 of "at least 8".
    """

    family: str
    text: str
    denial: str
    size: int
    dfa: DFA
    counts: tuple[int, ...] = ()

    def __invert__(self) -> Rule:
        """The rule of the words that do not obey this one."""
        family = OPPOSITES.get(self.family, self.family)
        if family == "never?":  # which of the two families does this "never" deny?
            family = "side by side" if self.denial.endswith("side by side") else "contains"
        size = self.size + 1
        return Rule(family, self.denial, self.text, size, self.dfa.complement(), self.counts)

    def __and__(self, other: Rule) -> Rule:
        """The rule of the words that obey both."""
        return self._with(other, "and", f"{self.text}, and {other.text}", self.dfa & other.dfa)

    def __or__(self, other: Rule) -> Rule:
        """The rule of the words that obey one of the two, or both."""
        return self._with(other, "or", f"{self.text}, or {other.text}", self.dfa | other.dfa)

    def __xor__(self, other: Rule) -> Rule:
        """The rule of the words that obey one of the two, but not both."""
        text = f"either {self.text}, or {other.text}, but not both"
        return self._with(other, "xor", text, self.dfa ^ other.dfa)

    def _with(self, other: Rule, family: str, text: str, dfa: DFA) -> Rule:
        size, counts = self.size + other.size + 1, self.counts + other.counts
        return Rule(family, text, f"not so: {text}", size, dfa, counts)


def listed(names: Sequence[str], last: str) -> str:
    """Names in a row: "a, b and c"."""
    return " ".join(filter(None, [", ".join(names[:-1]), last * (len(names) > 1), names[-1]]))


def aside(tier: Sequence[str], symbols: Sequence[str]) -> str:
    """What a tier leaves out of an alphabet, or what it does not, whichever are fewer; only their
    number if they are many."""
    others = [symbol for symbol in symbols if symbol not in tier]
    fewer, but = (others, "") if len(others) <= len(tier) else (tier, "all but ")
    return but + (listed(fewer, "and") if len(fewer) <= MOST_LISTED else f"{len(fewer)} symbols")


@dataclass(frozen=True)
class Families:
    """The rules over an alphabet.

    Attributes:
        symbols: the alphabet.
        names: how a symbol is written in a rule, if not as itself.
    """

    symbols: Sequence[str]
    names: Mapping[str, str] | None = None

    def _said(self, *symbols: str, between: str = " ") -> str:
        names = self.names or {}
        return between.join(names.get(symbol, symbol) for symbol in symbols)

    def _dfa(self, rows: Mapping[Any, Mapping[str, Any]], final: set[Any]) -> DFA:
        """An automaton from its rows; the first is the start."""
        return DFA(
            states=set(rows),
            input_symbols=set(self.symbols),
            transitions={state: dict(row) for state, row in rows.items()},
            initial_state=next(iter(rows)),
            final_states=final,
        )

    def _built(self, build: Callable[..., DFA], pattern: Sequence[str], **how: bool) -> DFA:
        """The automaton of a pattern: automata-lib's type says a text, but it only iterates."""
        return build(set(self.symbols), pattern, **how)

    def contains(self, *pattern: str) -> Rule:
        """The symbols occur in this order, side by side or not."""
        order = " in this order" if len(pattern) > 1 else ""
        what = f"{self._said(*pattern, between=' ... ')}{order}"
        dfa = self._built(DFA.from_subsequence, pattern)
        return Rule("contains", f"contains {what}", f"never contains {what}", len(pattern), dfa)

    def side_by_side(self, *pattern: str) -> Rule:
        """The symbols occur in this order without gaps."""
        what = f"contains {self._said(*pattern)} side by side"
        dfa = self._built(DFA.from_substring, pattern)
        return Rule("side by side", what, f"never {what}", len(pattern), dfa)

    def starts(self, *pattern: str) -> Rule:
        """The first symbols are these."""
        said = f"with {self._said(*pattern)}"
        dfa = self._built(DFA.from_prefix, pattern, as_partial=False)
        return Rule("starts", f"starts {said}", f"does not start {said}", len(pattern), dfa)

    def ends(self, *pattern: str) -> Rule:
        """The last symbols are these."""
        said = f"with {self._said(*pattern)}"
        dfa = self._built(DFA.from_suffix, pattern)
        return Rule("ends", f"ends {said}", f"does not end {said}", len(pattern), dfa)

    def same_ends(self) -> Rule:
        """The first symbol equals the last: true of words of one symbol, not of the empty word."""
        rows: dict[Any, dict[str, Any]] = {(): {s: (s, s) for s in self.symbols}}
        for first, last in product(self.symbols, repeat=2):
            rows[first, last] = {s: (first, s) for s in self.symbols}
        dfa = self._dfa(rows, {(s, s) for s in self.symbols}).minify()
        return Rule(
            "same ends",
            "starts and ends with the same symbol",
            "does not start and end with the same symbol",
            1,
            dfa,
        )

    def _counted(self, family: str, count: int, symbol: str, dfa: DFA) -> Rule:
        said = f"{family} {count} {self._said(symbol)}"
        return Rule(family, f"has {said}", f"does not have {said}", 2, dfa, (count,))

    def at_least(self, count: int, symbol: str) -> Rule:
        """``count`` or more of the symbol."""
        return self._counted("at least", count, symbol, self.contains(*[symbol] * count).dfa)

    def at_most(self, count: int, symbol: str) -> Rule:
        """``count`` or fewer of the symbol."""
        more = self.contains(*[symbol] * (count + 1)).dfa
        return self._counted("at most", count, symbol, more.complement())

    def exactly(self, count: int, symbol: str) -> Rule:
        """Exactly ``count`` of the symbol."""
        dfa = self.at_least(count, symbol).dfa & self.at_most(count, symbol).dfa
        return self._counted("exactly", count, symbol, dfa)

    def even(self, symbol: str) -> Rule:
        """An even number of the symbol; 0 is even."""
        rows = {q: {s: q ^ (s == symbol) for s in self.symbols} for q in (0, 1)}
        said = f"number of {self._said(symbol)}"
        return Rule("even", f"has an even {said}", f"has an odd {said}", 2, self._dfa(rows, {0}))

    def before(self, early: str, late: str) -> Rule:
        """``early`` occurs, and no ``late`` comes before it."""
        rows = {
            "start": {s: {early: "early", late: "late"}.get(s, "start") for s in self.symbols},
            "early": dict.fromkeys(self.symbols, "early"),
            "late": dict.fromkeys(self.symbols, "late"),
        }
        said = f"{self._said(early)} before any {self._said(late)}"
        dfa = self._dfa(rows, {"early"})
        return Rule("before", f"has {said}", f"does not have {said}", 3, dfa)

    def all_before(self, early: str, late: str) -> Rule:
        """Every ``early`` stands before every ``late``; each may be missing."""
        said = f"every {self._said(early)} before every {self._said(late)}"
        dfa = self.contains(late, early).dfa.complement()
        return Rule("before", f"has {said}", f"does not have {said}", 3, dfa)

    def only(self, symbol: str) -> Rule:
        """One or more of the symbol, and nothing else."""
        rows = {
            "start": {s: "only" if s == symbol else "other" for s in self.symbols},
            "only": {s: "only" if s == symbol else "other" for s in self.symbols},
            "other": dict.fromkeys(self.symbols, "other"),
        }
        said = f"one or more {self._said(symbol)}, and nothing else"
        return Rule("only", f"is {said}", f"is not {said}", 2, self._dfa(rows, {"only"}))
