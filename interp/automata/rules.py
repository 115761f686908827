"""Rules in words: families of regular languages, and the rule behind an automaton.

A rule is recognised by equivalence of automata, never by likeness. Symbols that an automaton never
tells apart are one letter to it, so that rules are sought over the few words that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations, product
from typing import Any

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from interp.automata.extraction import over, symbol_classes, toggled

SOME = 4  # symbols that are still called "one of a, b, c, d"
PROBES = 1500  # words on which candidates are compared before their automata are
MOST_TOLD = 12  # symbols that rules are sought over; of more, those of first and last alone
MOST_COUNT = 8  # of a symbol, in "at least", "at most" and "exactly"
MOST_ENDS = 20  # symbols whose first and last are compared: the automaton has the square of them
MOST_PAIRS = 50  # of pairs that fit, the smallest


OPPOSITES = {"contains": "never", "side by side": "never", "never": "never?"}
OPPOSITES |= {"all": "none", "none": "all"}


@dataclass(frozen=True)
class Rule:
    """A language with a name.

    Attributes:
        family: "contains", "side by side", "starts", "ends", "same ends", "at least", "at most",
            "exactly", "even", "never", "before", "only", "and", "or", "xor", "all" or "none".
        text: what a word does that obeys it; completes "a word is accepted if it ...".
        denial: the same of a word that does not obey it.
        size: how much there is to say: its symbols and the words between them.
        dfa: its complete automaton.
    """

    family: str
    text: str
    denial: str
    size: int
    dfa: DFA

    def __invert__(self) -> Rule:
        """What does not obey it."""
        family = OPPOSITES.get(self.family, self.family)
        if family == "never?":  # what a "never" denies
            family = "side by side" if self.denial.endswith("side by side") else "contains"
        return Rule(family, self.denial, self.text, self.size + 1, self.dfa.complement())

    def __and__(self, other: Rule) -> Rule:
        """What obeys both."""
        return self._with(other, "and", f"{self.text}, and {other.text}", self.dfa & other.dfa)

    def __or__(self, other: Rule) -> Rule:
        """What obeys one of them, or both."""
        return self._with(other, "or", f"{self.text}, or {other.text}", self.dfa | other.dfa)

    def __xor__(self, other: Rule) -> Rule:
        """What obeys one of them, not both."""
        text = f"either {self.text}, or {other.text}, but not both"
        return self._with(other, "xor", text, self.dfa ^ other.dfa)

    def _with(self, other: Rule, family: str, text: str, dfa: DFA) -> Rule:
        return Rule(family, text, f"not so: {text}", self.size + other.size + 1, dfa)


@dataclass(frozen=True)
class Families:
    """The rules over an alphabet.

    Attributes:
        symbols: the alphabet.
        names: what a symbol is called in a rule, where not by itself.
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
        """The automaton of a pattern; automata-lib asks for a text and iterates over it."""
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
        """The first symbol is the last one too: so in words of one symbol, not in the empty one."""
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
        return Rule(family, f"has {said}", f"does not have {said}", 2, dfa)

    def at_least(self, count: int, symbol: str) -> Rule:
        """So many of the symbol, or more."""
        return self._counted("at least", count, symbol, self.contains(*[symbol] * count).dfa)

    def at_most(self, count: int, symbol: str) -> Rule:
        """So many of the symbol, or fewer."""
        more = self.contains(*[symbol] * (count + 1)).dfa
        return self._counted("at most", count, symbol, more.complement())

    def exactly(self, count: int, symbol: str) -> Rule:
        """So many of the symbol."""
        dfa = self.at_least(count, symbol).dfa & self.at_most(count, symbol).dfa
        return self._counted("exactly", count, symbol, dfa)

    def even(self, symbol: str) -> Rule:
        """An even number of the symbol; none is even."""
        rows = {q: {s: q ^ (s == symbol) for s in self.symbols} for q in (0, 1)}
        said = f"number of {self._said(symbol)}"
        return Rule("even", f"has an even {said}", f"has an odd {said}", 2, self._dfa(rows, {0}))

    def before(self, early: str, late: str) -> Rule:
        """The first symbol occurs, and before any of the second."""
        rows = {
            "start": {s: {early: "early", late: "late"}.get(s, "start") for s in self.symbols},
            "early": dict.fromkeys(self.symbols, "early"),
            "late": dict.fromkeys(self.symbols, "late"),
        }
        said = f"{self._said(early)} before any {self._said(late)}"
        dfa = self._dfa(rows, {"early"})
        return Rule("before", f"has {said}", f"does not have {said}", 3, dfa)

    def all_before(self, early: str, late: str) -> Rule:
        """Every one of the first symbol stands before every one of the second."""
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


# -- the rule behind an automaton, or behind verdicts -------------------------------------------


def rule_of(dfa: DFA, symbols: Sequence[str], empty: bool = True) -> Rule | None:
    """The rule of the families that an automaton is, in the fewest words; None where it is none.

    Args:
        dfa: a complete automaton over the symbols.
        symbols: the alphabet, in the order in which it is told.
        empty: whether the empty word must agree too; lines of words are never empty.
    """
    dfa = dfa.minify()
    classes = symbol_classes(dfa, symbols)
    letters = [group[0] for group in classes]
    families = Families(letters, {group[0]: _one_of(group) for group in classes})
    small = over(dfa, letters)
    told = [group[0] for group in classes if len(group) <= SOME]
    if len(told) > MOST_TOLD:
        told = []
    found = [
        rule
        for goal in ([small] if empty else [small, toggled(small)])
        for rule in _equivalent(goal, families, told, len(letters) == len(symbols) <= MOST_ENDS)
    ]
    if not found:
        return None
    best = min(found, key=lambda rule: (len(rule.text.split()), rule.size))
    return replace(best, dfa=_widened(best.dfa, classes))


def rules_near(
    words: Sequence[Sequence[str]],
    verdicts: Bool[np.ndarray, " words"],
    symbols: Sequence[str],
    told: Sequence[str],
    most_wrong: int,
) -> list[tuple[Rule, int]]:
    """The rules that differ from the verdicts on few of the words, with on how many.

    For each size the one with the fewest; for a network that is sure of words of some lengths
    alone, where no automaton of all words can be asked for.

    Args:
        words: not empty.
        symbols: the alphabet.
        told: the symbols that a rule may name; without any there is none to tell.
        most_wrong: words on which a rule may differ.
    """
    families = Families(symbols)
    padded = _padded(words, symbols)
    if not told:
        return []
    candidates = [families.same_ends()] if len(symbols) <= MOST_ENDS else []
    rules = _with_denials([*candidates, *_candidates(families, told, states=5, patterns=())])
    seen = np.array([_verdicts(rule.dfa, symbols, padded) for rule in rules])
    best: dict[int, tuple[Rule, int]] = {}
    for wrong, make in _near(seen, verdicts, rules, most_wrong):
        rule = make()
        if rule.size not in best or wrong < best[rule.size][1]:
            best[rule.size] = rule, wrong
    return [best[size] for size in sorted(best)]


def same(one: DFA, other: DFA) -> bool:
    """Do two automata accept the same words, the empty one aside?"""
    return one == other or toggled(one) == other


def _equivalent(goal: DFA, families: Families, told: Sequence[str], whole: bool) -> Iterator[Rule]:
    """The candidates that are the goal: compared on probe words first, then as automata.

    Args:
        whole: whether each letter is a symbol of its own, so that two of a letter are the same.
    """
    rules = _constants(families)
    if whole:
        rules.append(families.same_ends())
    patterns = [_shortest(dfa, families.symbols) for dfa in (goal, goal.complement())]
    rules += _candidates(families, told, len(goal.states), patterns)
    rules = _with_denials(rules)
    probes = _probes(len(families.symbols))
    wanted = _verdicts(goal, families.symbols, probes)
    seen = np.array([_verdicts(rule.dfa, families.symbols, probes) for rule in rules])
    alone = [rules[i] for i in np.flatnonzero((seen == wanted).all(axis=1))]
    exact = [rule for rule in alone if rule.dfa == goal]
    if exact:
        yield from exact
        return
    for _, make in _near(seen, wanted, rules, 0):
        rule = make()
        if rule.dfa == goal:
            yield rule


def _near(
    seen: Bool[np.ndarray, "rules words"],
    wanted: Bool[np.ndarray, " words"],
    rules: Sequence[Rule],
    most_wrong: int,
) -> Iterator[tuple[int, Callable[[], Rule]]]:
    """Candidates, and pairs of them by and, or, xor, that differ on few words: on how many, and how
    to make the rule.

    How many words two rules share, and share with the wanted ones, tells of every pair at once.
    """
    counts = seen.astype(np.float32)
    goal = wanted.astype(np.float32)
    both, both_wanted = counts @ counts.T, (counts * goal) @ counts.T
    one, one_wanted, total = counts.sum(axis=1), counts @ goal, goal.sum()
    sizes = np.array([rule.size for rule in rules])

    def chosen(index: int) -> Rule:
        return rules[index]

    for index in np.flatnonzero(one + total - 2 * one_wanted <= most_wrong):
        wrong = int(one[index] + total - 2 * one_wanted[index])
        yield wrong, partial(chosen, int(index))
    sums, sums_wanted = one[:, None] + one, one_wanted[:, None] + one_wanted
    shares = {
        Rule.__and__: (both, both_wanted),
        Rule.__or__: (sums - both, sums_wanted - both_wanted),
        Rule.__xor__: (sums - 2 * both, sums_wanted - 2 * both_wanted),
    }
    for combine, (size, shared) in shares.items():
        differ = size + total - 2 * shared
        differ[np.tril_indices(len(differ))] = np.inf
        rows, columns = np.nonzero(differ <= most_wrong)
        smallest = np.lexsort((differ[rows, columns], sizes[rows] + sizes[columns]))[:MOST_PAIRS]
        for i, j in zip(rows[smallest].tolist(), columns[smallest].tolist(), strict=True):
            yield int(differ[i, j]), partial(combine, rules[i], rules[j])


def _with_denials(rules: Iterable[Rule]) -> list[Rule]:
    return [each for rule in rules for each in (rule, ~rule)]


def _constants(families: Families) -> list[Rule]:
    every = DFA.universal_language(set(families.symbols))
    return [Rule("all", "is any word", "is no word", 0, every)]


def _candidates(
    families: Families, told: Sequence[str], states: int, patterns: Iterable[Sequence[str]]
) -> Iterator[Rule]:
    """The rules over the symbols that are told, as long as so many states could need them.

    Args:
        patterns: longer ones to try too.
    """
    longest = 3 if len(told) <= 5 else 2 if len(told) <= 9 else 1
    tried = [p for length in range(1, longest + 1) for p in product(told, repeat=length)]
    for pattern in [*tried, *(p for p in patterns if len(p) > longest and set(p) <= set(told))]:
        yield families.starts(*pattern)
        yield families.ends(*pattern)
        if len(pattern) == 1 or len(set(pattern)) > 1:  # x ... x is "at least 2 x"
            yield families.contains(*pattern)
        if len(pattern) > 1:
            yield families.side_by_side(*pattern)
    for symbol in told:
        yield families.even(symbol)
        yield families.only(symbol)
        for count in range(1, min(states, MOST_COUNT + 1)):
            yield families.at_most(count, symbol)
            yield families.exactly(count, symbol)
            if count > 1:
                yield families.at_least(count, symbol)
    for early, late in permutations(told, 2):
        yield families.before(early, late)
        yield families.all_before(early, late)


# -- automata ------------------------------------------------------------------------------------


def _one_of(group: Sequence[str]) -> str:
    return group[0] if len(group) == 1 else f"one of {', '.join(group)}"


def _widened(dfa: DFA, classes: Sequence[Sequence[str]]) -> DFA:
    """The automaton over whole classes, each symbol doing what the first of its class does."""
    return DFA(
        states=set(dfa.states),
        input_symbols={symbol for group in classes for symbol in group},
        transitions={
            q: {symbol: row[group[0]] for group in classes for symbol in group}
            for q, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states),
    )


def _probes(letters: int) -> np.ndarray:
    """Random words of up to 12 letters, padded with -1, [words, 12]; always the same."""
    rng = np.random.default_rng(0)
    words = rng.integers(letters, size=(PROBES, 12))
    words[np.arange(12) >= rng.integers(1, 13, size=PROBES)[:, None]] = -1
    return words


def _padded(words: Sequence[Sequence[str]], symbols: Sequence[str]) -> np.ndarray:
    """Words as numbers of their symbols, padded with -1, [words, longest]."""
    number = {symbol: index for index, symbol in enumerate(symbols)}
    padded = np.full((len(words), max(map(len, words))), -1)
    for row, word in zip(padded, words, strict=True):
        row[: len(word)] = [number[symbol] for symbol in word]
    return padded


def _verdicts(dfa: DFA, letters: Sequence[str], words: np.ndarray) -> np.ndarray:
    """The automaton's verdicts on padded words, [words]."""
    number = {state: index for index, state in enumerate(dfa.states)}
    # The last column is the padding, which moves nothing.
    delta = np.array(
        [[*(number[dfa.transitions[q][s]] for s in letters), number[q]] for q in dfa.states]
    )
    final = np.array([q in dfa.final_states for q in dfa.states])
    state = np.full(len(words), number[dfa.initial_state])
    for column in words.T:
        state = delta[state, column]
    return final[state]


def _shortest(dfa: DFA, symbols: Sequence[str]) -> tuple[str, ...]:
    """The first shortest accepted word, breadth first; () where none is accepted."""
    seen = {dfa.initial_state}
    queue: list[tuple[Any, tuple[str, ...]]] = [(dfa.initial_state, ())]
    for state, word in queue:
        if state in dfa.final_states:
            return word
        for symbol in symbols:
            target = dfa.transitions[state][symbol]
            if target not in seen:
                seen.add(target)
                queue.append((target, (*word, symbol)))
    return ()
