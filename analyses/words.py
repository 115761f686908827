"""The words that an analysis looks at when the user names none, and their tensors."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from models.errors import UserError
from models.languages import DUTCH, FormalLanguage, Language, Sample, Word, Words, printed_lines
from models.languages.language import Split
from models.runs.run import Run

LENGTHS_CHANGED = range(4, 21)
"""Lengths of the words of ``changed_words``. Shorter words have too few symbols to rank. Longer
ones take too long, because each word is run once for every pair of a changed symbol and a replaced
value."""
ANALYSIS_SEED = 0xA11A  # words of the analyses are neither training nor test words


@dataclass(frozen=True)
class WordTensors:
    """Words as the lenses take them.

    Attributes:
        tokens: token ids, with BOS first.
        mask: True on BOS and the word, False on padding.
        last: the position of each word's last symbol.
    """

    tokens: Int[Tensor, "batch pos"]
    mask: Bool[Tensor, "batch pos"]
    last: Int[Tensor, " batch"]

    @classmethod
    def of(cls, words: Words) -> WordTensors:
        mask = np.pad(words.mask, ((0, 0), (1, 0)), constant_values=True)
        return cls(
            torch.as_tensor(words.tokens), torch.as_tensor(mask), torch.as_tensor(words.lengths)
        )


def sample_window(run: Run, count: int, seed: int) -> Sample:
    """Fresh words of the training window, members and others with equal chances.

    Part of the others are near misses, see ``Language.sample``.
    """
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    return run.language.sample(rng, count, run.language.lengths(run.config.max_n), split="test")


def one_of_each(words: Words, whole: bool, seed: int) -> Bool[np.ndarray, "batch pos"]:
    """A mask of positions, BOS among them, that show each prefix once.

    Many words begin alike, and a causal model has one activation for equal prefixes. So a probe
    could be fitted and scored on one and the same example, in two words. So one occurrence of each
    prefix is taken at random.

    Args:
        whole: the model sees the whole word at each position. Then one of each word is taken, with
            all its positions.
        seed: seed of the draw.
    """
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    order = rng.permutation(len(words.ids))
    kept = np.zeros(words.tokens.shape, dtype=bool)
    same = np.zeros(len(words.ids), dtype=np.int64)  # equal numbers for equal prefixes
    for position, symbol in enumerate(words.tokens.T):
        _, same = np.unique(np.stack([same, symbol]), axis=1, return_inverse=True)
        rows = rng.permutation(order[words.lengths[order] >= position])
        kept[rows[np.unique(same[rows], return_index=True)[1]], position] = True
    if not whole:
        return kept
    _, one = np.unique(np.column_stack([words.lengths, same])[order], axis=0, return_index=True)
    inside = np.arange(words.tokens.shape[1]) <= words.lengths[:, None]
    return inside & np.isin(np.arange(len(words.ids)), order[one])[:, None]


def given(language: Language, text: str | None, default: Word) -> Word:
    """The user's word, or the default. Raises UserError for an unknown symbol or an empty word."""
    if text is None:
        return default
    word = language.vocabulary.parse(text)
    if not word:
        raise UserError("the word is empty: give at least one symbol, for example --word 'a a b b'")
    return word


def counterfactuals(language: Language, word: Word, most: int, seed: int) -> list[Word]:
    """Up to ``most`` different counterfactuals of one word, the nearest ones first.

    A word in which one place decides has few of them. Where there are fewer than ``most``, other
    words of its length and of the opposite membership follow: what a site carries for one of four
    counterfactuals alone is told from nothing by many only.

    Raises:
        UserError: the word has none.
    """
    rng = np.random.default_rng([ANALYSIS_SEED, seed])
    try:
        drawn = [language.counterfactual(word, rng) for _ in range(8 * most)]
    except LookupError as error:
        raise UserError(
            f"no counterfactual of {' '.join(word)!r}: {error}; choose another word"
        ) from None
    nearest = list(dict.fromkeys(drawn))[:most]
    if len(nearest) == most or not isinstance(language, FormalLanguage):
        return nearest
    further: list[Word] = []
    with suppress(LookupError):  # there may be no others
        label, lengths = not language.contains(word), [len(word)]
        some = language.sample(rng, 8 * most, lengths, label=label, split=apart(language)).words
        further = language.vocabulary.decoded(some)
    further.sort(key=lambda other: sum(a != b for a, b in zip(other, word, strict=True)))
    return list(dict.fromkeys([*nearest, *further]))[:most]


def apart(language: Language) -> Split:
    """The split that an analysis draws words from. For a grammar it is the one without a planted
    shortcut, which only training lines have."""
    return "test" if isinstance(language, FormalLanguage) else "train"


def member(run: Run, n: int) -> Word:
    """A member: for the rules of the Dutch lines their first line, else a word of about size n.

    Raises:
        UserError: training took all members.
    """
    language = run.language
    if language.name in DUTCH and isinstance(language, FormalLanguage):
        return printed_lines()[0][1]
    lengths = language.positive_lengths(language.lengths(run.config.max_n))
    for length in sorted(lengths, key=lambda k: abs(k - language.length_of(n))):
        rng = np.random.default_rng(ANALYSIS_SEED)
        with suppress(LookupError):  # training may have taken all of a length
            words = language.sample(rng, 1, [length], label=True, split=apart(language)).words
            return language.vocabulary.decode(words.ids[0, :length])
    raise UserError(
        f"{language.name} has no member up to size {run.config.max_n} apart from those of "
        "training: give a word"
    )


def near_miss(run: Run, n: int, seed: int = ANALYSIS_SEED) -> Word:
    """A word of about size n outside the language: the one of 64 drawn words that needs the fewest
    substitutions to become a member. For a corpus a member."""
    language = run.language
    if not isinstance(language, FormalLanguage):
        return member(run, n)
    length, rng = len(member(run, n)), np.random.default_rng(seed)
    words = language.sample(rng, 64, [length], label=False, split=apart(language)).words
    return min(
        language.vocabulary.decoded(words),
        key=lambda word: len((language.rationales(word) or (word,))[0]),
    )


def changed_words(run: Run, count: int, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Different members, each with words that differ from it in one symbol.

    Counterfactuals would not serve here: those of anbn move the border between its blocks, and no
    other position would ever matter. So every symbol is replaced once, by another one at random.

    Returns:
        Per member its tokens [pos] and the changed words [symbol, pos], row i without symbol i.
        Empty where the language has a single symbol or no member of such a length.
    """
    language, rng = run.language, np.random.default_rng([ANALYSIS_SEED, seed])
    symbols = np.array([language.vocabulary.ids[s] for s in language.vocabulary.symbols])
    lengths = language.positive_lengths(language.lengths(run.config.max_n))
    fit = [length for length in lengths if length in LENGTHS_CHANGED]
    if len(symbols) < 2 or not fit:
        return []
    try:
        words = language.sample(rng, 4 * count, fit, label=True, split="test").words
    except LookupError:  # no such line of the corpus was kept for tests
        return []
    pairs: dict[Word, tuple[Tensor, Tensor]] = {}
    for tokens, length in zip(words.tokens, words.lengths, strict=True):
        word = tokens[: length + 1]
        changed = np.tile(word, (length, 1))
        place = np.searchsorted(symbols, word[1:])
        shift = rng.integers(1, len(symbols), length)
        changed[np.arange(length), np.arange(1, length + 1)] = symbols[
            (place + shift) % len(symbols)
        ]
        pair = torch.as_tensor(word), torch.as_tensor(changed)
        pairs.setdefault(language.vocabulary.decode(word), pair)
    return list(pairs.values())[:count]
