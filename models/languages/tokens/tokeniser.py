"""Cuts words into tokens: into letters, or by byte-pair encoding (Sennrich et al. 2016).

The library `tokenizers` learns the merges and cuts the words. It merges letters, not bytes. A
symbol of several letters is a word of the text; a mark at its end stands for the blank, and no
merge goes beyond it. Where all symbols are letters, a word of the language has no blanks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from models.errors import UserError
from models.languages.language import Language
from models.languages.vocabulary import MOST_TYPED, Vocabulary, Word

if TYPE_CHECKING:
    from tokenizers import Tokenizer

WORDS, CHARACTERS, BPE = "words", "characters", "bpe"
BLANK = "_"
"""Stands at the end of each word, where a text has its blank."""
MOST_MERGES = 10_000
LEARNT_ON, LEARNT_SIZE, LEARNT_SEED = 2000, 25, 0xB9E
"""Words that the merges are learned on, the largest size among them, and the seed of their draw."""


def merges_of(vocabulary: str) -> int | None:
    """The merges of a kind of vocabulary, counted; None if its tokens are the symbols themselves.

    Args:
        vocabulary: "words", "characters", or "bpe:16" for 16 merges.

    Raises:
        UserError: it is none of these.
    """
    if vocabulary == WORDS:
        return None
    if vocabulary == CHARACTERS:
        return 0
    match = re.fullmatch(rf"{BPE}:([0-9]{{1,9}})", vocabulary, re.ASCII)
    if not match:
        raise UserError(
            f"vocabulary is {vocabulary[:60]!r}: choose {WORDS}, {CHARACTERS}, or {BPE}:16 for 16 "
            "merges"
        )
    merges = int(match[1])
    if not 1 <= merges <= MOST_MERGES:
        raise UserError(
            f"vocabulary is {vocabulary}: the merges must lie between 1 and {MOST_MERGES:,}"
        )
    return merges


@dataclass(frozen=True)
class Text:
    """A text of the reader's own. Merges are learned on it as on the words of a language.

    Attributes:
        line: the text, with blanks between its words.

    Raises:
        UserError: it is empty or too long.
    """

    line: str
    name: ClassVar[str] = "your text"

    def __post_init__(self) -> None:
        if not self.line.split():
            raise UserError("the text has no letters: write some words")
        if len(self.line) > MOST_TYPED:
            raise UserError(f"the text has {len(self.line)} letters: give at most {MOST_TYPED}")

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Its words, each once."""
        return Vocabulary(tuple(dict.fromkeys(self.example())))

    def example(self) -> Word:
        """All its words."""
        return tuple(self.line.split())


def is_spelled(source: Language | Text) -> bool:
    """Has it symbols of several letters? They are words of the text then."""
    return isinstance(source, Text) or any(len(each) > 1 for each in source.vocabulary.symbols)


class Tokeniser:
    """Cuts words of a language into tokens.

    Attributes:
        spelled: whether symbols are words of several letters, each with ``BLANK`` at its end.
        tokens: all tokens, the letters first, then the merged ones in their order.
        merges: the pairs that are merged, in their order.
        content: the file of the library, JSON.
    """

    def __init__(self, model: Tokenizer, spelled: bool) -> None:
        import json

        self._model, self.spelled = model, spelled
        self.tokens = tuple(sorted(ids := model.get_vocab(), key=lambda token: ids[token]))
        self.content = model.to_str(pretty=True).encode()
        self.merges = [(left, right) for left, right in json.loads(self.content)["model"]["merges"]]
        self._letters = set("".join(self.tokens))
        self._cut = lru_cache(maxsize=2**16)(self._cut_anew)

    @classmethod
    def learn(cls, source: Language | Text, vocabulary: str) -> Tokeniser:
        """The tokeniser of a language or of a text; the same at every call.

        Args:
            vocabulary: "characters" or "bpe:16".

        Raises:
            UserError: so many merges cannot be learned on its words, or a symbol holds ``BLANK``.
        """
        merges, symbols = merges_of(vocabulary) or 0, source.vocabulary.symbols
        spelled = is_spelled(source)
        if spelled and any(BLANK in symbol for symbol in symbols):
            raise UserError(
                f"a word of {source.name} holds {BLANK!r}, which marks the blank: write another "
                "letter"
            )
        letters = set("".join(symbols)) | ({BLANK} if spelled else set())
        texts = texts_of(source, spelled) if merges else []
        tokeniser = cls(learnt(texts, letters, merges), spelled)
        if len(tokeniser.merges) < merges:
            raise UserError(
                f"words of {source.name} hold only {len(tokeniser.merges)} merges: choose "
                f"{BPE}:{len(tokeniser.merges)} or less"
            )
        return tokeniser

    @classmethod
    def read(cls, content: bytes, spelled: bool, where: str) -> Tokeniser:
        """The tokeniser of a file.

        Args:
            where: the file's path.

        Raises:
            UserError: it is damaged.
        """
        from tokenizers import Tokenizer

        try:
            return cls(Tokenizer.from_str(content.decode()), spelled)
        except Exception as error:  # the library raises Exception itself
            reason = " ".join(str(error).split())
            raise UserError(f"{where} is no file of a tokeniser ({reason}): put it back") from None

    # -- cutting --------------------------------------------------------------------------------

    def cut(self, text: str) -> Word:
        """A word of a text, or a whole word of letters, as tokens.

        Raises:
            UserError: a letter is in no token.
        """
        for letter in text:
            if letter not in self._letters:
                letters = " ".join(sorted(self._letters))
                raise UserError(f"unknown letter {letter!r}: use only {letters}")
        return self._cut(text)

    def _cut_anew(self, text: str) -> Word:
        return tuple(self._model.encode(text).tokens)

    def encode(self, word: Sequence[str]) -> Word:
        """The symbols of a word as tokens."""
        if self.spelled:
            return tuple(token for symbol in word for token in self.cut(symbol + BLANK))
        return self.cut("".join(word))

    def decode(self, tokens: Sequence[str]) -> Word:
        """The symbols that tokens spell; what follows the last blank counts as one more."""
        text = "".join(tokens)
        return tuple(text.removesuffix(BLANK).split(BLANK) if self.spelled and text else text)

    def parse(self, text: str) -> Word:
        """A typed text as tokens: words with blanks between them, or the tokens themselves, each
        of which is then cut anew.

        Raises:
            UserError: a letter is in no token, or the text is too long.
        """
        if len(text) > MOST_TYPED:
            raise UserError(f"the word has {len(text)} letters: give at most {MOST_TYPED}")
        parts = text.split()
        if not self.spelled or BLANK in text:
            return self.encode(self.decode(parts))
        return self.encode(parts)


@dataclass(frozen=True)
class TokenVocabulary(Vocabulary):
    """The tokens of a tokeniser, which also cuts what is typed."""

    tokeniser: Tokeniser = field(compare=False, repr=False)

    def parse(self, text: str) -> Word:
        """A typed text as tokens, see ``Tokeniser.parse``. A misspelled word is no mistake."""
        return self.tokeniser.parse(text)


def texts_of(source: Language | Text, spelled: bool, count: int = LEARNT_ON) -> list[str]:
    """The texts to learn from: words that are drawn of a language, or the reader's own text."""
    if isinstance(source, Text):
        words = [source.example()]
    else:
        rng = np.random.default_rng(LEARNT_SEED)
        lengths = source.lengths(LEARNT_SIZE)
        words = source.vocabulary.decoded(source.sample(rng, count, lengths, label=True).words)
    return [
        " ".join(symbol + BLANK for symbol in word) if spelled else "".join(word) for word in words
    ]


def learnt(texts: Sequence[str], letters: set[str], merges: int) -> Tokenizer:
    """A tokeniser of the library with so many merges; with fewer where the texts hold no more."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=len(letters) + merges,
        initial_alphabet=sorted(letters),
        show_progress=False,
        special_tokens=[],
    )
    model.train_from_iterator(texts, trainer)
    return model
