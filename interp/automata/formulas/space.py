"""The rules that lines do not exclude, and the words that would decide between them.

Lines leave a space of rules. Two of them are told apart by a word on which they differ, and whoever
knows the language can say which of them is right.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from automata.fa.dfa import DFA

from interp.automata.equivalence import Word
from interp.automata.extraction import run, symbol_classes
from interp.automata.formulas.search import BEYOND
from interp.automata.induction import Found

MOST_RULES = 20
"""The most rules beside the best."""


def space(best: Found, others: Sequence[Found], symbols: Sequence[str]) -> list[Found]:
    """The best rule, and then the shortest others that no more lines contradict.

    Args:
        best: the best rule.
        others: other rules, weighed by the same lines.
        symbols: the alphabet.

    Returns:
        Rules of different languages; of equal ones the shortest.
    """
    kept = [best]
    for rule in sorted(others, key=lambda one: one.bits):
        if len(kept) > MOST_RULES or rule.bits > best.bits + BEYOND:
            break
        if rule.wrong <= best.wrong and all(_parting(rule.dfa, k.dfa, symbols) for k in kept):
            kept.append(rule)
    return kept


def _parting(one: DFA, other: DFA, symbols: Sequence[str]) -> Word | None:
    """The first of the shortest words on which two automata differ; None if there is none.

    The empty word does not count. Symbols that neither tells apart are tried once.
    """
    letters = [group[0] for group in _together(one, other, symbols)]
    start = (one.initial_state, other.initial_state)
    way: dict[tuple[Any, Any], Word] = {start: ()}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for letter in letters:
            after = (one.transitions[state[0]][letter], other.transitions[state[1]][letter])
            if (after[0] in one.final_states) != (after[1] in other.final_states):
                return (*way[state], letter)
            if after not in way:
                way[after] = (*way[state], letter)
                queue.append(after)
    return None


def _together(one: DFA, other: DFA, symbols: Sequence[str]) -> list[list[str]]:
    """Classes of symbols that neither automaton tells apart."""
    first = {s: i for i, group in enumerate(symbol_classes(one, symbols)) for s in group}
    second = {s: i for i, group in enumerate(symbol_classes(other, symbols)) for s in group}
    classes: dict[tuple[int, int], list[str]] = {}
    for symbol in symbols:
        classes.setdefault((first[symbol], second[symbol]), []).append(symbol)
    return list(classes.values())


def differing(one: DFA, other: DFA, symbols: Sequence[str], lengths: Sequence[int]) -> float:
    """The share of all words of some lengths on which two automata differ.

    Args:
        lengths: a length as often as it counts; none is 0.
    """
    groups = _together(one, other, symbols)
    start = (one.initial_state, other.initial_state)
    now: dict[tuple[Any, Any], float] = {start: 1.0}
    total = 0.0
    shares = np.bincount(np.asarray(lengths, dtype=int)) / len(lengths)
    for share in shares[1:]:
        after: dict[tuple[Any, Any], float] = {}
        for (mine, its), weight in now.items():
            for group in groups:
                pair = (one.transitions[mine][group[0]], other.transitions[its][group[0]])
                after[pair] = after.get(pair, 0.0) + weight * len(group) / len(symbols)
        now = after
        total += share * sum(
            weight
            for (mine, its), weight in now.items()
            if (mine in one.final_states) != (its in other.final_states)
        )
    return total


def deciding(rules: Sequence[DFA], symbols: Sequence[str], most: int = 10) -> list[Word]:
    """The words by which few answers leave one rule; the most telling word first.

    The candidates are the shortest words on which two of the rules part. Each word that is taken
    splits the rules that are not told apart yet as evenly as it can; of equally good ones the
    shortest is taken. The symbols may be fewer than those of the rules, which these words may then
    not all tell apart.
    """
    words = sorted(
        {w for pair in combinations(rules, 2) if (w := _parting(*pair, symbols)) is not None},
        key=lambda word: (len(word), word),
    )
    if not words:
        return []
    verdicts = np.array([run(rule, words) for rule in rules])  # [rules, words]
    group = np.zeros(len(rules), dtype=int)  # rules that the words taken do not tell apart
    taken: list[Word] = []
    while len(taken) < most and group.max() < len(rules) - 1:
        splits = [np.unique(2 * group + column, return_counts=True)[1] for column in verdicts.T]
        best = min(
            range(len(words)), key=lambda i: ((splits[i] ** 2).sum(), len(words[i]), words[i])
        )
        if len(splits[best]) == group.max() + 1:
            break  # the rest differ on no word over these symbols
        taken.append(words[best])
        group = np.unique(2 * group + verdicts[:, best], return_inverse=True)[1]
    return taken
