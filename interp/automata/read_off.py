"""Rules that are read off an automaton: where its ways lead says which rules to compare with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import pairwise, product
from typing import Any

from automata.fa.dfa import DFA

from interp.automata.equivalence import Word
from interp.automata.rules import Families, Rule

MOST_FORBIDDEN = 4
"""The most words in a list of what never occurs."""
MOST_WORDS, LONGEST = 1000, 4
"""They are looked for among so many words at most, none longer than this."""


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


def _shapes(dfa: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
    word = shortest_word(dfa, families.symbols)
    if word and set(word) <= set(told):
        yield families.word(*word)
        yield families.repeated(*word, once=dfa.initial_state not in dfa.final_states)
        if all(one != other for one, other in pairwise(word)):
            yield families.blocks(*word)
    yield from _sums(dfa, families, told)
    yield from _brackets(dfa, families, told)


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


def _sums(dfa: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
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
            if length or weights.keys() <= set(told):
                rests = sorted(sums[q] for q in dfa.final_states)
                yield families.modulo(len(sums), rests, weights)


def _brackets(dfa: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
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
        if {symbol for pair in pairs for symbol in pair} <= set(told):
            yield families.brackets(depth - 1, *pairs)


def lists(goal: DFA, families: Families, told: Sequence[str]) -> Iterator[Rule]:
    """Lists of what never occurs, side by side or in order; for a denial, of what may occur.

    Args:
        goal: a minimal automaton.
        told: the symbols that a rule may name.
    """
    for dfa, denied in ((goal, False), (~goal, True)):
        for forbidden in (_factors(dfa, families, told), _subsequences(dfa, families, told)):
            if 0 < len(forbidden) <= MOST_FORBIDDEN:
                if denied:
                    rule = reduce(Rule.__or__, forbidden)
                else:
                    rule = reduce(Rule.__and__, (~part for part in forbidden))
                if rule.dfa == goal:
                    yield rule


def _words(told: Sequence[str]) -> Iterator[Word]:
    """All words of few symbols, the shorter first."""
    for length in range(1, LONGEST + 1):
        if len(told) ** length > MOST_WORDS:
            return
        yield from product(told, repeat=length)


def _factors(dfa: DFA, families: Families, told: Sequence[str]) -> list[Rule]:
    """The least words that no accepted word contains side by side, starts with, ends with, or is.

    At most one more than may be listed.
    """
    rows, start = dfa.transitions, dfa.initial_state
    live = {q for q in dfa.states if q in dfa.final_states or set(rows[q].values()) != {q}}
    after: dict[Word, dict[Any, Any]] = {(): {q: q for q in live}}
    no_start, no_end = set[Word](), set[Word]()
    rules: list[Rule] = []
    first = [s for s in families.symbols if rows[start][s] in live]
    if start not in dfa.final_states and len(first) == 1 and first[0] in told:
        rules.append(~families.starts(*first))  # the empty word does not start with it either
        no_start.update((s,) for s in told if s not in first)
    for word in _words(told):
        if not (after.get(word[:-1]) and after.get(word[1:])):
            continue  # a part of it never occurs
        ways = {q: rows[r][word[-1]] for q, r in after[word[:-1]].items()}
        after[word] = ways = {q: r for q, r in ways.items() if r in live}
        if not ways:
            rules.append((families.side_by_side if len(word) > 1 else families.contains)(*word))
            continue
        if start not in ways:
            rules += [] if no_start & {word, word[:-1]} else [families.starts(*word)]
            no_start.add(word)
        if dfa.final_states.isdisjoint(ways.values()):
            no_end.add(word)
            rules += [] if word[1:] in no_end else [families.ends(*word)]
        if word not in no_start | no_end and ways[start] not in dfa.final_states:
            rules.append(families.word(*word))
        if len(rules) > MOST_FORBIDDEN:
            break
    return rules


def _subsequences(dfa: DFA, families: Families, told: Sequence[str]) -> list[Rule]:
    """The least rejected words; they never occur in order if that is all there is to a rule.

    At most one more than may be listed.
    """
    after: dict[Word, Any] = (
        {(): dfa.initial_state} if dfa.initial_state in dfa.final_states else {}
    )
    rules: list[Rule] = []
    for word in _words(told):
        if any(word[:i] + word[i + 1 :] not in after for i in range(len(word))):
            continue
        state = dfa.transitions[after[word[:-1]]][word[-1]]
        if state in dfa.final_states:
            after[word] = state
        elif len(set(word)) == 1:
            rules.append(families.at_least(len(word), word[0]))
        else:
            rules.append(families.contains(*word))
        if len(rules) > MOST_FORBIDDEN:
            break
    return rules
