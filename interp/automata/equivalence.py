"""Words that test whether an automaton is the network's: the W-method, and words of its own.

The W-method (Chow 1978) takes words that lead to every state, continues them by every word of a few
symbols, and ends them with words that tell any two states apart. If a network has a finite
automaton of at most ``extra`` states more than the hypothesis, then one of these words shows any
difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from automata.fa.dfa import DFA

Word = tuple[str, ...]


@dataclass(frozen=True)
class Tests:
    """Words of the W-method.

    Attributes:
        words: the words, each once, short ones first.
        whole: True if these are all words of the method. Else there were too many of them, or some
            are longer than the network can be asked.
    """

    words: list[Word]
    whole: bool


def state_cover(dfa: DFA, symbols: Sequence[str]) -> dict[Any, Word]:
    """For each state that can be reached, the first of the shortest words that lead to it."""
    cover: dict[Any, Word] = {dfa.initial_state: ()}
    queue = [dfa.initial_state]
    for state in queue:
        for symbol in symbols:
            target = dfa.transitions[state][symbol]
            if target not in cover:
                cover[target] = (*cover[state], symbol)
                queue.append(target)
    return cover


def _telling_apart(dfa: DFA, symbols: Sequence[str]) -> list[Word]:
    """A characterisation set of a minimal automaton: words that tell any two of its states apart.

    From two states at least one of these words leads to acceptance in one and not in the other.
    """
    suffixes: list[Word] = [()]
    seen: dict[Any, tuple[bool, ...]] = {q: (q in dfa.final_states,) for q in dfa.states}
    while len(set(seen.values())) < len(seen):
        # Two states that look alike so far differ after one more symbol; such a symbol is found.
        after = {s: {q: seen[dfa.transitions[q][s]] for q in dfa.states} for s in symbols}
        symbol, which = next(
            (symbol, index)
            for symbol in symbols
            for index in range(len(suffixes))
            if len({(seen[q], after[symbol][q][index]) for q in seen}) > len(set(seen.values()))
        )
        suffixes.append((symbol, *suffixes[which]))
        seen = {q: (*row, after[symbol][q][which]) for q, row in seen.items()}
    return suffixes


def w_method(
    dfa: DFA, symbols: Sequence[str], most: int, longest: int, extra: int = 1, seed: int = 0
) -> Tests:
    """The words of the W-method: state cover, up to ``extra`` + 1 symbols, characterisation set.

    Args:
        dfa: a minimal complete automaton.
        symbols: the alphabet.
        most: about so many words at most. Words with fewer symbols in the middle come first; of
            those with more, some are drawn.
        longest: the length of the longest word that may be asked.
        extra: number of states that the network's automaton may have more.
        seed: seed of the draws.
    """
    cover, suffixes = list(state_cover(dfa, symbols).values()), _telling_apart(dfa, symbols)
    rng = np.random.default_rng(seed)
    words: dict[Word, None] = {}
    whole = True
    for middle in range(extra + 2):
        shape = (len(cover), *[len(symbols)] * middle, len(suffixes))
        total, room = int(np.prod(shape)), max(0, most - len(words))
        chosen = np.arange(total) if total <= room else rng.choice(total, room, replace=False)
        whole &= total <= room
        for row in np.stack(np.unravel_index(chosen, shape), axis=1).tolist():
            way, end = cover[row[0]], suffixes[row[-1]]
            words[(*way, *(symbols[i] for i in row[1:-1]), *end)] = None
    tests = [word for word in words if len(word) <= longest]
    return Tests(in_order(tests), whole and len(tests) == len(words))


class Ways:
    """Random words that lead from the start into given states, drawn evenly for each length."""

    def __init__(self, dfa: DFA, alphabet: Sequence[str], into: Iterable[Any]) -> None:
        self.dfa, self.symbol = one_letter_each(dfa, alphabet, into)

    def drawn(self, length: int, seed: int) -> Word | None:
        """A random word of this length; None if no word of this length leads there."""
        if not self.dfa.count_words_of_length(length):
            return None
        return tuple(self.symbol[c] for c in self.dfa.random_word(length, seed=seed))


def own_words(dfa: DFA, symbols: Sequence[str], lengths: Sequence[int]) -> list[Word]:
    """Random words that an automaton accepts, one of each length where it accepts any."""
    ways = Ways(dfa, symbols, dfa.final_states)
    return in_order(ways.drawn(length, seed) for seed, length in enumerate(lengths))


def long_ways(dfa: DFA, symbols: Sequence[str], lengths: Sequence[int], most: int) -> list[Word]:
    """Words of given lengths that lead to a state by a random way, continue with a symbol, and end
    with a word that tells states apart. Of all such combinations so many at most are drawn."""
    ways = {state: Ways(dfa, symbols, {state}) for state in sorted(dfa.states, key=str)}
    tests = list(product(ways, symbols, _telling_apart(dfa, symbols)))
    rng = np.random.default_rng(len(tests))
    chosen = rng.permutation(len(tests))[:most]
    drawn = rng.choice(lengths, len(chosen))
    words: list[Word | None] = []
    for seed, length in zip(chosen.tolist(), drawn.tolist(), strict=True):
        state, symbol, suffix = tests[seed]
        way = ways[state].drawn(max(0, length - 1 - len(suffix)), seed)
        words.append(None if way is None else (*way, symbol, *suffix))
    return in_order(words)


def in_order(words: Iterable[Word | None]) -> list[Word]:
    """Each word once, short words first."""
    return sorted({w for w in words if w is not None}, key=lambda word: (len(word), word))


def one_letter_each(
    dfa: DFA, symbols: Sequence[str], final: Iterable[Any] | None = None
) -> tuple[DFA, dict[str, str]]:
    """The same automaton over single letters, and the symbol of each letter.

    automata-lib writes words as texts. There a symbol has to be one letter.

    Args:
        final: accepting states to take instead of the automaton's own.
    """
    letters = {symbol: chr(0x4E00 + index) for index, symbol in enumerate(symbols)}
    spelled = DFA(
        states=set(dfa.states),
        input_symbols=set(letters.values()),
        transitions={
            state: {letters[symbol]: target for symbol, target in row.items()}
            for state, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states if final is None else final),
    )
    return spelled, {letter: symbol for symbol, letter in letters.items()}
