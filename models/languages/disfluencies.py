"""Disfluent words: a speaker stumbles over a word and means the word without the stumbles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int

from models.languages.language import Language
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import FIRST_SYMBOL_ID, Vocabulary, Words

Disfluency = Literal["all", "fillers", "repetitions", "restarts", "dropped", "swapped"]
KINDS: tuple[Disfluency, ...] = get_args(Disfluency)[1:]
FLUENT = -1


def fillers_of(language: Language) -> Int[np.ndarray, " fillers"]:
    """The ids of symbols that say nothing: those that decide nothing, or any, if all decide."""
    if isinstance(language, RegularLanguage) and len(language.inert):
        return language.inert
    return np.arange(FIRST_SYMBOL_ID, len(language.vocabulary))


def disfluent(
    words: Words,
    rng: np.random.Generator,
    rate: float,
    fillers: Int[np.ndarray, " fillers"],
    longest: int,
    kind: Disfluency = "all",
) -> Words:
    """The words as a speaker stumbles over them.

    At each symbol, with probability ``rate``, one of these happens: a filler comes before it; it is
    said twice (a repetition); it and the one or two before it are said again (a restart); it is
    dropped; or it is swapped with the next. A word's last symbol is not swapped, and no word is
    left empty.

    Args:
        fillers: ids; each is as likely as any other.
        longest: no word becomes longer than this; a stumble that would make it so is left out.
        kind: the stumble; "all" draws one of the five at each symbol.
    """
    shape = words.ids.shape
    kinds = KINDS if kind == "all" else (kind,)
    drawn = rng.integers(len(kinds), size=shape)
    drawn[rng.random(shape) >= rate] = FLUENT
    filler, back = rng.choice(fillers, size=shape), rng.integers(2, 4, size=shape)
    choices = (words.ids.tolist(), drawn.tolist(), filler.tolist(), back.tolist())
    spoken = [
        _spoken(
            word[:length], [kinds[k] if k != FLUENT else None for k in codes], um, steps, longest
        )
        for length, word, codes, um, steps in zip(words.lengths, *choices, strict=True)
    ]
    lengths = np.array([len(word) for word in spoken], dtype=np.int64)
    ids = np.zeros((len(spoken), int(lengths.max(initial=0))), dtype=np.int64)
    for row, word in zip(ids, spoken, strict=True):
        row[: len(word)] = word
    return Words.of_rows(ids, lengths)


def _spoken(
    word: list[int],
    kinds: Sequence[Disfluency | None],
    fillers: Sequence[int],
    back: Sequence[int],
    longest: int,
) -> list[int]:
    """One word, as it is spoken.

    Args:
        kinds: the stumble at each symbol, if any.
        fillers: a filler for each symbol.
        back: the symbols that a restart at each symbol says again.
    """
    speech: list[int] = []
    at, room = 0, longest - len(word)
    while at < len(word):
        ends = at + 1
        part = word[at:ends]
        match kinds[at]:
            case "fillers":
                part = [fillers[at], *part]
            case "repetitions":
                part = part * 2
            case "restarts":
                part = part + word[max(0, ends - back[at]) : ends]
            case "dropped":
                part = [] if speech or ends < len(word) else part
            case "swapped":
                ends = min(at + 2, len(word))
                part = word[at:ends][::-1]
        if len(part) - (ends - at) > room:
            part = word[at:ends]
        room -= len(part) - (ends - at)
        speech += part
        at = ends
    return speech


# -- what was meant -------------------------------------------------------------------------------


def with_labels(words: Words, labels: np.ndarray, vocabulary: Vocabulary) -> Words:
    """The words with their labels, written into the number of each first symbol: what is said may
    have another label than what was meant. No word is empty."""
    ids = words.ids.copy()
    ids[:, 0] += len(vocabulary) * (1 + labels)
    return Words(ids, words.lengths)


def said(words: Words, vocabulary: Vocabulary) -> Words:
    """The words without the labels that may be written into them."""
    return Words(words.ids % len(vocabulary), words.lengths)


def said_and_meant(words: Words, language: Language) -> tuple[Words, np.ndarray]:
    """The words, and the labels that were written into them, or else their own."""
    heard = said(words, language.vocabulary)
    marks = words.ids[:, :1].max(axis=1, initial=0) // len(language.vocabulary)
    labels, plain = marks == 2, marks == 0
    if plain.any():
        labels[plain] = language.labels(heard[plain])
    return heard, labels
