"""Symbols, token ids and batches of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

from models.errors import UserError
from models.plain_files import one_form

BOS = "<bos>"
END = "<end>"
BOS_ID, END_ID, FIRST_SYMBOL_ID = 0, 1, 2
BORDER = ">"
"""The symbol between the source and the target of a pair."""

UNK = "<unk>"
"""The symbol that stands for each word that a vocabulary does not have, where it is a symbol."""

Word = tuple[str, ...]

MOST_TYPED = 2000
"""The most letters of a typed word: whatever is asked of it is asked of each of its symbols."""


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a language: id 0 is BOS, id 1 is END, the symbols follow in their order.

    Raises:
        UserError: two symbols are the same, or one is BOS or END.
    """

    symbols: tuple[str, ...]

    def __post_init__(self) -> None:
        names = {BOS, END}
        for symbol in self.symbols:
            if symbol in names:
                raise UserError(f"the symbol {symbol!r} is taken already: give it another name")
            names.add(symbol)

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        return (BOS, END, *self.symbols)

    @cached_property
    def ids(self) -> dict[str, int]:
        return {token: index for index, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def border(self) -> int:
        """The id of the border between source and target.

        Raises:
            UserError: there is none.
        """
        if BORDER not in self.ids:
            raise UserError(
                f"no symbol is {BORDER!r}: there are no pairs of a source and a target; "
                "choose a language of pairs such as copy, or another --objective"
            )
        return self.ids[BORDER]

    def parse(self, text: str) -> Word:
        """A typed text as a word: split at white space, or into letters if all symbols are letters.

        Raises:
            UserError: the text holds something that is no symbol of this vocabulary.
        """
        if len(text) > MOST_TYPED:
            raise UserError(f"the word has {len(text)} letters: give at most {MOST_TYPED}")
        parts = text.split()
        if all(len(symbol) == 1 for symbol in self.symbols if symbol != UNK):
            split = ([part] if part in self.ids else one_form(part) for part in parts)
            parts = [symbol for symbols in split for symbol in symbols]
        return self.check(parts)

    def check(self, symbols: Iterable[str]) -> Word:
        """The symbols as a word, or a UserError that names the first unknown one.

        Where ``UNK`` is a symbol, it takes the place of what is unknown.
        """
        word = tuple(symbols)
        if self._known.issuperset(word):
            return word
        word = tuple(s if s in self._known else one_form(s) for s in word)
        if UNK in self._known:
            return tuple(s if s in self._known else UNK for s in word)
        for symbol in word:
            if symbol not in self._known:
                names = " ".join(self.symbols[:20]) + (" ..." if len(self.symbols) > 20 else "")
                raise UserError(f"unknown symbol {symbol!r}: use only {names}")
        return word

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.symbols)

    def decode(self, ids: Iterable[int] | Int[np.ndarray, " time"]) -> Word:
        return tuple(self.tokens[int(i)] for i in ids)

    def decoded(self, words: Words) -> list[Word]:
        """The words of a batch."""
        return [self.decode(ids[:n]) for ids, n in zip(words.ids, words.lengths, strict=True)]

    def words(self, words: Sequence[Sequence[str]]) -> Words:
        """Turns words into a padded batch. Raises UserError for an unknown symbol."""
        checked = [self.check(word) for word in words]
        lengths = np.array([len(word) for word in checked], dtype=np.int64)
        ids = np.full((len(checked), int(lengths.max(initial=0))), END_ID, dtype=np.int64)
        for row, word in enumerate(checked):
            ids[row, : len(word)] = [self.ids[symbol] for symbol in word]
        return Words(ids, lengths)


@dataclass(frozen=True)
class Words:
    """A batch of words as token ids without BOS, padded at the right with END.

    Attributes:
        ids: token ids, shape [batch, time].
        lengths: symbols of each word, shape [batch]; ``ids[i, lengths[i]:]`` is padding.
    """

    ids: Int[np.ndarray, "batch time"]
    lengths: Int[np.ndarray, " batch"]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, rows: np.ndarray | slice) -> Words:
        return Words(self.ids[rows], self.lengths[rows])

    @cached_property
    def mask(self) -> np.ndarray:
        """True where a symbol stands, False on padding; shape [batch, time]."""
        return np.arange(self.ids.shape[1]) < self.lengths[:, None]

    @cached_property
    def tokens(self) -> Int[np.ndarray, "batch time_plus_1"]:
        """The tokens that a model reads: BOS, then the word, then padding."""
        return np.pad(self.ids, ((0, 0), (1, 0)), constant_values=BOS_ID)

    @cached_property
    def following(self) -> Int[np.ndarray, "batch time_plus_1"]:
        """The token that comes after each of ``tokens``: END after the last symbol, and later."""
        return np.pad(self.ids, ((0, 0), (0, 1)), constant_values=END_ID)

    @staticmethod
    def of_rows(ids: np.ndarray, lengths: np.ndarray) -> Words:
        """A batch from ids with undefined padding: everything past a word's length becomes END."""
        padded = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, END_ID)
        return Words(padded.astype(np.int64), lengths.astype(np.int64))

    @staticmethod
    def concatenate(first: Words, second: Words) -> Words:
        """The rows of both, padded to one width."""
        width = max(first.ids.shape[1], second.ids.shape[1])
        wide = [
            np.pad(w.ids, ((0, 0), (0, width - w.ids.shape[1])), constant_values=END_ID)
            for w in (first, second)
        ]
        return Words(np.concatenate(wide), np.concatenate([first.lengths, second.lengths]))
