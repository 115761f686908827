"""Rules in words: families of regular languages, each with its automaton."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from automata.fa.dfa import DFA

from interp.automata.extraction import MOST_LISTED

OPPOSITES = {"contains": "never", "side by side": "never", "never": "never?"}
OPPOSITES |= {"all": "none", "none": "all"}
ONE_OF = "one of "
"""Symbols that are never told apart are called so, and then listed."""
FAMILIES = 23
"""So many families there are: those that ``Rule`` names, and that a rule is on a tier."""


@dataclass(frozen=True)
class Rule:
    """A language with a name.

    Attributes:
        family: "contains", "side by side", "starts", "ends", "same ends", "at least", "at most",
            "exactly", "even", "never", "before", "only", "and", "or", "xor", "all", "none",
            "blocks", "word", "repeated", "modulo" or "brackets".
        text: the predicate of a word that obeys it; it completes "a word is accepted if it ...".
        denial: the predicate of a word that does not obey it.
        size: number of its parts: its symbols, and words such as "not" and "or" between them.
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


@dataclass(frozen=True)
class Families:
    """The rules over an alphabet.

    Attributes:
        symbols: the alphabet.
        names: the name of a symbol in a rule, if not the symbol itself.
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
        text = f"with {self._said(*pattern)}"
        dfa = self._built(DFA.from_prefix, pattern, as_partial=False)
        return Rule("starts", f"starts {text}", f"does not start {text}", len(pattern), dfa)

    def ends(self, *pattern: str) -> Rule:
        """The last symbols are these."""
        text = f"with {self._said(*pattern)}"
        dfa = self._built(DFA.from_suffix, pattern)
        return Rule("ends", f"ends {text}", f"does not end {text}", len(pattern), dfa)

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
        text = f"{family} {count} {self._said(symbol)}"
        return Rule(family, f"has {text}", f"does not have {text}", 2, dfa, (count,))

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
        text = f"number of {self._said(symbol)}"
        return Rule("even", f"has an even {text}", f"has an odd {text}", 2, self._dfa(rows, {0}))

    def before(self, early: str, late: str) -> Rule:
        """``early`` occurs, and no ``late`` comes before it."""
        rows = {
            "start": {s: {early: "early", late: "late"}.get(s, "start") for s in self.symbols},
            "early": dict.fromkeys(self.symbols, "early"),
            "late": dict.fromkeys(self.symbols, "late"),
        }
        text = f"{self._said(early)} before any {self._said(late)}"
        dfa = self._dfa(rows, {"early"})
        return Rule("before", f"has {text}", f"does not have {text}", 3, dfa)

    def all_before(self, early: str, late: str) -> Rule:
        """Every ``early`` stands before every ``late``; each may be missing."""
        text = f"every {self._said(early)} before every {self._said(late)}"
        dfa = self.contains(late, early).dfa.complement()
        return Rule("before", f"has {text}", f"does not have {text}", 3, dfa)

    def only(self, symbol: str) -> Rule:
        """One or more of the symbol, and nothing else."""
        rows = {
            "start": {s: "only" if s == symbol else "other" for s in self.symbols},
            "only": {s: "only" if s == symbol else "other" for s in self.symbols},
            "other": dict.fromkeys(self.symbols, "other"),
        }
        text = f"one or more {self._said(symbol)}, and nothing else"
        return Rule("only", f"is {text}", f"is not {text}", 2, self._dfa(rows, {"only"}))

    def _moves(self, moves: Mapping[tuple[Any, str], Any], final: set[Any], start: Any = 0) -> DFA:
        """The automaton of some moves; all others lead astray, from where nothing leads back."""
        states = dict.fromkeys([start, *moves.values()])
        rows = {q: {s: moves.get((q, s), "astray") for s in self.symbols} for q in states}
        return self._dfa(rows | {"astray": dict.fromkeys(self.symbols, "astray")}, final)

    def word(self, *pattern: str) -> Rule:
        """This word alone."""
        moves = {(index, symbol): index + 1 for index, symbol in enumerate(pattern)}
        dfa, what = self._moves(moves, {len(pattern)}), f"{self._said(*pattern)}, and nothing else"
        return Rule("word", f"is {what}", f"is not {what}", len(pattern), dfa)

    def repeated(self, *pattern: str, once: bool = False) -> Rule:
        """The pattern any number of times; with ``once``, at least once."""
        size = len(pattern)
        moves = {(index, symbol): index + 1 for index, symbol in enumerate(pattern)}
        dfa = self._moves(moves | {(size, pattern[0]): 1}, {size} if once else {0, size})
        what = f"{self._said(*pattern)}, {'one or more' if once else 'any number of'} times"
        return Rule("repeated", f"is {what}", f"is not {what}", size + once, dfa)

    def blocks(self, *pattern: str) -> Rule:
        """Runs of one or more of these symbols, in this order; all other symbols are left out.

        Args:
            pattern: the symbol of each run; neighbours differ.
        """
        tier = [symbol for symbol in self.symbols if symbol in pattern]
        if len(tier) < len(self.symbols):
            rule = self.on_tier(Families(tier, self.names).blocks(*pattern), tier)
            return replace(rule, size=len(pattern) + 1)  # the runs name the tier
        moves = {(index, symbol): index + 1 for index, symbol in enumerate(pattern)}
        moves |= {(index + 1, symbol): index + 1 for index, symbol in enumerate(pattern)}
        what = ", then ".join(f"one or more {self._said(symbol)}" for symbol in pattern)
        dfa = self._moves(moves, {len(pattern)})
        return Rule("blocks", f"is {what}", f"is not {what}", len(pattern), dfa)

    def modulo(self, number: int, rests: Sequence[int], weights: Mapping[str, int]) -> Rule:
        """The sum of the symbols' weights leaves one of these rests when divided by a number.

        Args:
            rests: numbers from 0 up to ``number`` - 1.
            weights: numbers from 1 up to ``number`` - 1; a symbol without one counts 0.
        """
        rows = {
            rest: {s: (rest + weights.get(s, 0)) % number for s in self.symbols}
            for rest in range(number)
        }
        alike = len(set(weights.values())) == 1 and 1 in weights.values()
        if alike and len(weights) == len(self.symbols):
            what = "a length"
        elif alike:
            what = f"a number of {listed([self._said(s) for s in weights])}"
        else:
            counted = [f"{self._said(s)} counts {weight}" for s, weight in weights.items()]
            what = f"a sum, where {listed(counted)},"
        left = " or ".join(map(str, rests))
        how = f"divisible by {number}"
        if [*rests] != [0]:
            how = f"that leaves {left} when divided by {number}"
        counts = (number, *rests, *(() if alike else weights.values()))
        dfa = self._dfa(rows, set(rests))
        text, size = f"{what} {how}", len(weights) + 1
        return Rule("modulo", f"has {text}", f"does not have {text}", size, dfa, counts)

    def brackets(self, depth: int, *pairs: tuple[str, str]) -> Rule:
        """The pairs are brackets that match, nested up to a depth; all other symbols are free."""
        free = [s for s in self.symbols if s not in {part for pair in pairs for part in pair}]
        stacks = [tuple(s) for n in range(depth + 1) for s in product(range(len(pairs)), repeat=n)]
        moves: dict[tuple[Any, str], Any] = {(stack, s): stack for stack in stacks for s in free}
        for stack in stacks[1:]:
            opens, closes = pairs[stack[-1]]
            moves[stack[:-1], opens], moves[stack, closes] = stack, stack[:-1]
        phrase = listed([self._said(*pair) for pair in pairs])
        text = f"{phrase} as brackets that match, nested up to depth {depth}"
        dfa = self._moves(moves, {()}, start=())
        size = 2 * len(pairs)
        return Rule("brackets", f"has {text}", f"does not have {text}", size, dfa, (depth,))

    def on_tier(self, rule: Rule, tier: Sequence[str]) -> Rule:
        """A rule over the symbols of a tier, with all others left out."""
        others = [symbol for symbol in self.symbols if symbol not in tier]
        states = [rule.dfa.initial_state, *rule.dfa.states]
        rows = {q: {**rule.dfa.transitions[q], **dict.fromkeys(others, q)} for q in states}
        read, all_read = (
            [name for s in some for name in self._said(s).removeprefix(ONE_OF).split(", ")]
            for some in (tier, self.symbols)
        )
        left_out = f" (with {aside(read, all_read)} left out)"
        return replace(
            rule,
            text=rule.text + left_out,
            denial=rule.denial + left_out,
            size=rule.size + 1 + len(tier),
            dfa=self._dfa(rows, set(rule.dfa.final_states)),
        )


def listed(parts: Sequence[str]) -> str:
    """Parts as "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def aside(tier: Sequence[str], symbols: Sequence[str]) -> str:
    """The symbols that a tier leaves out of an alphabet, or "all but" those that it keeps.

    The fewer of the two are listed; if they are many, only their number is given.
    """
    others = [symbol for symbol in symbols if symbol not in tier]
    fewer, but = (others, "") if len(others) <= len(tier) else (tier, "all but ")
    return but + (listed(fewer) if len(fewer) <= MOST_LISTED else f"{len(fewer)} symbols")
