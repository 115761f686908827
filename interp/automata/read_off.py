"""Rules that are read off an automaton: where its ways lead says which rules to compare with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice, pairwise, product
from typing import Any

from automata.fa.dfa import DFA

from interp.automata.equivalence import Word
from interp.automata.extraction import canonical
from interp.automata.rules import Families, Rule
from interp.automata.subregular.local import strictly_local
from interp.automata.subregular.piecewise import strictly_piecewise
from interp.automata.subregular.semigroup import table_of

MOST_FORBIDDEN = 4
"""The most words in a list of what never occurs."""
MOST_WORDS = 5000
"""They are looked for only if there are no more words of their length."""


def shapes(goal: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
    """The rules of a minimal automaton that have one shape, and the denials of such rules.

    Shapes are runs in order, a word, a repeated word, brackets, and a sum modulo a number.

    Args:
        goal: a minimal automaton.
        told: the symbols that a rule may name.
    """
    for dfa, denied in ((goal, False), (~goal, True)):
        for rule in _shapes(dfa, families, told):
            if rule.dfa == dfa:
                yield ~rule if denied else rule


def _shapes(dfa: DFA, families: Families, letters: Sequence[str]) -> Iterator[Rule]:
    word = shortest_word(dfa, families.symbols)
    if word and set(word) <= set(letters):
        yield families.word(*word)
        yield families.repeated(*word, once=dfa.initial_state not in dfa.final_states)
        if all(one != other for one, other in pairwise(word)):
            yield families.blocks(*word)
    yield from _sums(dfa, families, letters)
    yield from _brackets(dfa, families, letters)


def shortest_word(dfa: DFA, symbols: Sequence[str]) -> Word:
    """The shortest accepted word that is not empty, the first one in the order of symbols; () if
    there is none."""
    seen = set()
    queue: list[tuple[Any, Word]] = [(dfa.initial_state, ())]
    for state, word in queue:
        for symbol in symbols:
            target = dfa.transitions[state][symbol]
            if target in dfa.final_states:
                return (*word, symbol)
            if target not in seen:
                seen.add(target)
                queue.append((target, (*word, symbol)))
    return ()


def _sums(dfa: DFA, families: Families, letters: Sequence[str]) -> Iterator[Rule]:
    """A sum modulo the number of states, where some symbol counts 1 and so leads to all states."""
    for one in families.symbols:
        sums = {dfa.initial_state: 0}
        state = dfa.transitions[dfa.initial_state][one]
        while state not in sums:
            sums[state] = len(sums)
            state = dfa.transitions[state][one]
        if len(sums) == len(dfa.states) > 1 and state == dfa.initial_state:
            after = {s: sums[q] for s, q in dfa.transitions[dfa.initial_state].items()}
            weights = {s: after[s] for s in families.symbols if after[s]}
            length = {*weights.values()} == {1} and len(weights) == len(families.symbols)
            if length or weights.keys() <= set(letters):
                rests = sorted(sums[q] for q in dfa.final_states)
                yield families.modulo(len(sums), rests, weights)


def _brackets(dfa: DFA, families: Families, letters: Sequence[str]) -> Iterator[Rule]:
    """Pairs of symbols that lead away from the start and back, if the start alone accepts."""
    start, rows = dfa.initial_state, dfa.transitions
    if dfa.final_states != {start}:
        return
    dead = {q for q in dfa.states if q != start and set(rows[q].values()) == {q}}
    opens = [s for s in families.symbols if rows[start][s] not in dead | {start}]
    closes = [[c for c in families.symbols if rows[rows[start][s]][c] == start] for s in opens]
    if not opens or any(len(close) != 1 for close in closes):
        return
    depth, state = 0, start
    while state not in dead and depth < len(dfa.states):
        depth, state = depth + 1, rows[state][opens[0]]
    stacks = sum(len(opens) ** n for n in range(depth))
    nested = depth > 2 or len(opens) > 1  # else it is a repeated word
    if nested and stacks + len(dead) == len(dfa.states):
        pairs = [(one, close[0]) for one, close in zip(opens, closes, strict=True)]
        if {symbol for pair in pairs for symbol in pair} <= set(letters):
            yield families.brackets(depth - 1, *pairs)


def lists(goal: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
    """Lists of what never occurs, side by side or in order; for a denial, of what may occur.

    Args:
        goal: a minimal automaton.
        told: the symbols that a rule may name.
    """
    for dfa, denied in ((goal, False), (~goal, True)):
        delta, final = table_of(canonical(dfa, families.symbols), families.symbols)
        ways = []
        if k := strictly_local(delta, final):
            ways.append(_side_by_side(dfa, families, _words(told, k)))
        if k := strictly_piecewise(delta, final):
            ways.append(_in_order(dfa, families, _words(told, k)))
        for way in ways:
            never = list(islice(way, MOST_FORBIDDEN + 1))
            if 0 < len(never) <= MOST_FORBIDDEN:
                rule = reduce(Rule.__and__, never)
                if denied:
                    rule = reduce(Rule.__or__, (~part for part in never))
                if rule.dfa == goal:
                    yield rule


def _words(letters: Sequence[str], longest: int) -> list[Word]:
    """All words of up to so many symbols, the shorter first; none if they are too many."""
    if len(letters) ** longest > MOST_WORDS:
        return []
    return [word for n in range(1, longest + 1) for word in product(letters, repeat=n)]


def _side_by_side(dfa: DFA, families: Families, words: Sequence[Word]) -> Iterator[Rule]:
    """Rules for the start and the end of all accepted words, and for what they never contain.

    Args:
        words: all up to a length, the shorter first.
    """
    rest = DFA.universal_language(set(families.symbols))
    for build in (families.starts, families.ends):
        common = _common(dfa, build, sorted({word[0] for word in words}))
        if common:
            yield common
            rest &= common.dfa
    for rule in _factors(dfa, families, words):
        if not rest.isdisjoint(rule.dfa):  # the start and the end do not exclude it already
            yield ~rule


def _common(dfa: DFA, build: Callable[..., Rule], letters: Iterable[str]) -> Rule | None:
    """The longest start, or end, that all accepted words have; None if they have none."""
    rule: Rule | None = None
    word: Word = ()
    while True:
        for longer in (way for s in letters for way in ((*word, s), (s, *word))):
            candidate = build(*longer)
            if dfa <= candidate.dfa:
                rule, word = candidate, longer
                break
        else:
            return rule


def _factors(dfa: DFA, families: Families, words: Sequence[Word]) -> Iterator[Rule]:
    """The least words that no accepted word contains side by side, starts with, ends with, or is.

    Args:
        words: all up to a length, the shorter first.
    """
    rows, start, final = dfa.transitions, dfa.initial_state, dfa.final_states
    live = {q for q in dfa.states if q in final or set(rows[q].values()) != {q}}
    after: dict[Word, dict[Any, Any]] = {(): {q: q for q in live}}
    no_start, no_end = set[Word](), set[Word]()
    for word in words:
        if not (after.get(word[:-1]) and after.get(word[1:])):
            continue  # a part of it never occurs
        ways = {q: rows[r][word[-1]] for q, r in after[word[:-1]].items()}
        after[word] = ways = {q: r for q, r in ways.items() if r in live}
        if not ways:
            yield (families.side_by_side if len(word) > 1 else families.contains)(*word)
            continue
        if start not in ways:
            if word[:-1] not in no_start:
                yield families.starts(*word)
            no_start.add(word)
        if final.isdisjoint(ways.values()):
            if word[1:] not in no_end:
                yield families.ends(*word)
            no_end.add(word)
        if word not in no_start | no_end and ways[start] not in final:
            yield families.word(*word)


def _in_order(dfa: DFA, families: Families, words: Sequence[Word]) -> Iterator[Rule]:
    """The least rejected words do not occur in order, if that is all there is to a rule.

    Args:
        words: all up to a length, the shorter first.
    """
    after: dict[Word, Any] = {(): dfa.initial_state}
    for word in words:
        if any(word[:i] + word[i + 1 :] not in after for i in range(len(word))):
            continue
        state = dfa.transitions[after[word[:-1]]][word[-1]]
        if state in dfa.final_states:
            after[word] = state
        elif len(word) > 1 and len(set(word)) == 1:
            least = families.at_least(len(word), word[0])
            yield replace(families.at_most(len(word) - 1, word[0]), denial=least.text)
        else:
            yield ~families.contains(*word)
