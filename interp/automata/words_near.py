"""Words on which hypotheses are compared with the network: near the lines, and like them.

Some lines are structured: dates, or sentences. Most words are then no such lines. A network was
never taught what to say of them, and its verdicts on them need not obey any rule. So hypotheses are
also compared on words that are like the lines: each is the beginning of one line and the end of
another, which meet in a symbol that both have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from interp.automata.equivalence import Word
from interp.automata.extraction import Teacher

TELLING = 0.25
"""A rule names a symbol only if replacing it turns the verdict more often than this share of how
often the most telling symbol does."""
TRIES = 10
"""So many pairs of lines are tried to make a word."""


def words_near(lines: Sequence[Word], symbols: Sequence[str], count: int, seed: int) -> list[Word]:
    """Words of the lines' own lengths.

    They are, a quarter each: lines, lines with one symbol replaced, random symbols, and random runs
    of equal symbols. Equal words are kept once.

    Args:
        lines: at least one, none of them empty.
        symbols: the alphabet.
        count: the most words.
        seed: seed of the draws.
    """
    rng = np.random.default_rng([seed, 0xD15C])
    count //= 4
    chosen = [lines[i] for i in rng.permutation(len(lines))[:count]]
    words = list(chosen)
    for line in (chosen[i] for i in rng.integers(len(chosen), size=count)):
        at = int(rng.integers(len(line)))
        words.append((*line[:at], symbols[int(rng.integers(len(symbols)))], *line[at + 1 :]))
    lengths = [len(lines[i]) for i in rng.integers(len(lines), size=2 * count)]
    for index, length in enumerate(lengths):
        run_of = np.arange(length)  # each symbol is drawn by itself, or in up to four runs
        if index % 2:
            run_of = np.searchsorted(np.sort(rng.integers(length, size=3)), run_of, side="right")
        drawn = rng.integers(len(symbols), size=max(length, 4))[run_of]
        words.append(tuple(symbols[i] for i in drawn))
    return list(dict.fromkeys(words))


def words_like(lines: Sequence[Word], count: int, seed: int) -> list[Word]:
    """Words that are like the lines: half of them lines, half made of lines.

    A word is made of two lines that share a symbol: it is the first line up to there, and the
    second from there on, if some line has this length. Else another pair is tried, and at last the
    line itself is taken. Equal words are kept once.

    Args:
        lines: at least one, none of them empty.
        count: the most words.
        seed: seed of the draws.
    """
    rng = np.random.default_rng([seed, 0x11E5])
    lengths, places = set(map(len, lines)), _places(lines)
    words = [lines[i] for i in rng.permutation(len(lines))[: count // 2]]
    for line in (lines[i] for i in rng.integers(len(lines), size=count - count // 2)):
        word = line
        for _ in range(TRIES):
            at = int(rng.integers(len(line)))
            others = places[line[at]]
            row, there = others[int(rng.integers(len(others)))]
            if at + len(lines[row]) - there in lengths:
                word = (*line[:at], *lines[row][there:])
                break
        words.append(word)
    return list(dict.fromkeys(words))


def _places(lines: Sequence[Word]) -> dict[str, list[tuple[int, int]]]:
    """Where each symbol stands: line and position."""
    places: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row, line in enumerate(lines):
        for at, symbol in enumerate(line):
            places[symbol].append((row, at))
    return places


def telling(
    teacher: Teacher, words: Sequence[Word], symbols: Sequence[str], most: int = 9
) -> list[str]:
    """The symbols on which the network's verdict depends, in the order of the alphabet.

    They are those that turn the verdict most often when another symbol takes their place, at most
    ``most`` of them.
    """
    rng = np.random.default_rng(0)
    verdicts = teacher(words)
    # As many accepted as rejected words: a rare verdict may depend on symbols of its own.
    sides = [rng.permutation(np.flatnonzero(verdicts == side)) for side in (True, False)]
    fewest = max(1, min(map(len, sides)))
    places: dict[str, list[tuple[Word, int]]] = {symbol: [] for symbol in symbols}
    for index in rng.permutation(np.concatenate([side[:fewest] for side in sides])):
        word = words[index]
        for at in rng.permutation(len(word))[:4].tolist():
            if len(places[word[at]]) < 100:
                places[word[at]].append((word, at))
    turned = {}
    for symbol, where in places.items():
        others = [s for s in symbols if s != symbol]
        if not where or not others:
            continue
        changed = [
            (*word[:at], others[int(rng.integers(len(others)))], *word[at + 1 :])
            for word, at in where
        ]
        turned[symbol] = (teacher(changed) != teacher([word for word, _ in where])).mean()
    least = TELLING * max(turned.values(), default=0.0)
    largest = sorted(turned, key=lambda symbol: -turned[symbol])[:most]
    largest = [symbol for symbol in largest if turned[symbol] > least]
    return [symbol for symbol in symbols if symbol in largest]
