"""A language seen through a tokeniser: what it knows of its words, it knows of their tokens.

Its words are the canonical tokens of the words of the language: those that the tokeniser gives.
Other tokens with the same letters are outside it, as misspelled words are.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

from models.languages.language import Draw, Language, Sample
from models.languages.tokens.tokeniser import Tokeniser, TokenVocabulary
from models.languages.vocabulary import FIRST_SYMBOL_ID, Vocabulary, Word, Words

TRIES, LEAST = 20, 256
"""The draws of words to find some of a length in tokens, and the fewest words of such a draw."""
DRAWN, DRAWN_SEED = 500, 0x70CE
"""Members that show which lengths there are, and the seed of their draw."""
NEARBY = 64
"""Counterfactuals that are drawn to find one of as many tokens."""


@dataclass(frozen=True)
class Spelling:
    """The spelling of a batch of tokens, prefix by prefix.

    Attributes:
        words: the symbols that they spell, up to the first fault.
        symbols: the number of these that each prefix has spelled whole, [batch, time + 1].
        right: whether each prefix begins a canonical word, [batch, time + 1].
    """

    words: Words
    symbols: Int[np.ndarray, "batch time_plus_1"]
    right: Bool[np.ndarray, "batch time_plus_1"]

    def at(self, values: np.ndarray) -> np.ndarray:
        """The values after each token, from those after each symbol, [batch, symbols + 1, ...]."""
        return values[np.arange(len(values))[:, None], self.symbols]


class TokenisedLanguage(Language):
    """The canonical tokens of the words of another language.

    Words are those that the other language draws. Its hidden variables are known after each token:
    as they are after the last symbol that is spelled whole.

    Attributes:
        base: the other language.
        tokeniser: cuts its words.
        knows_next: whether it knows which tokens may come next, or only whether a whole word is in
            the language.
    """

    rationale_rule: ClassVar[str] = "none: the positions of symbols that decide are not of tokens"
    knows_next: bool = True

    def __init__(self, base: Language, tokeniser: Tokeniser) -> None:
        self.base, self.tokeniser = base, tokeniser
        self.name, self.chomsky, self.short = base.name, base.chomsky, base.short
        self.variables = base.variables
        self.vocabulary: Vocabulary = TokenVocabulary(tokeniser.tokens, tokeniser)
        self.default_objective = base.default_objective

    # -- the truth ------------------------------------------------------------------------------

    @abstractmethod
    def spelling(self, words: Words) -> Spelling:
        """The spelling of tokens."""

    @abstractmethod
    def whole(self, words: Words, spelled: Spelling) -> Bool[np.ndarray, " batch"]:
        """Whether each word spells whole symbols only."""

    def labels(self, words: Words) -> np.ndarray:
        spelled = self.spelling(words)
        right = spelled.right[np.arange(len(words)), words.lengths] & self.whole(words, spelled)
        return np.asarray(right & self.base.labels(spelled.words))

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        """Variables of the other language; ``valid`` is 0 too where no canonical word begins so."""
        spelled = self.spelling(words)
        traced = {n: spelled.at(v) for n, v in self.base.trace(spelled.words).items()}
        if "valid" in traced:
            traced["valid"] = traced["valid"] * spelled.right
        return traced

    def encoded(self, words: Words) -> Words:
        """Words of the other language as tokens."""
        spelled = self.base.vocabulary.decoded(words)
        return self.vocabulary.words([self.tokeniser.encode(word) for word in spelled])

    def decoded(self, word: Sequence[str]) -> Word | None:
        """The word that tokens spell; None if they are not canonical, or misspell it."""
        spelled = self.tokeniser.decode(self.vocabulary.check(word))
        ids = self.base.vocabulary.ids
        if any(ids.get(symbol, 0) < FIRST_SYMBOL_ID for symbol in spelled):
            return None
        return spelled if self.tokeniser.encode(spelled) == tuple(word) else None

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The nearest word in tokens with as many of them, among ``NEARBY`` nearest in symbols."""
        spelled = self.decoded(word)
        if spelled is None:
            raise LookupError("its tokens are none that the tokeniser gives")
        source = np.random.default_rng(0) if rng is None else rng
        drawn = {
            self.tokeniser.encode(self.base.counterfactual(spelled, source)): None
            for _ in range(NEARBY)
        }
        fit = [tokens for tokens in drawn if len(tokens) == len(word)]
        if not fit:
            raise LookupError(f"none was found that has {len(word)} tokens too")
        return min(fit, key=lambda tokens: sum(x != y for x, y in zip(tokens, word, strict=True)))

    # -- data -----------------------------------------------------------------------------------

    @cached_property
    def _rates(self) -> tuple[float, float, float]:
        """The least, the mean and the most tokens of a symbol, in words that are drawn."""
        lengths = self.base.lengths(25)
        drawn = self.base.sample(np.random.default_rng(DRAWN_SEED), DRAWN, lengths).words
        rates = self.encoded(drawn).lengths / drawn.lengths
        return float(rates.min()), float(rates.mean()), float(rates.max())

    @cached_property
    def most(self) -> int:
        """The most tokens of a symbol."""
        return max(len(self.tokeniser.encode([s])) for s in self.base.vocabulary.symbols)

    def lengths(self, max_n: int) -> range:
        """The lengths from 1 to the most tokens of a word of the other language's window."""
        return range(1, self.base.lengths(max_n)[-1] * self.most + 1)

    def length_of(self, n: int) -> int:
        """The tokens of a word of size n, on average."""
        return max(1, round(self.base.length_of(n) * self._rates[1]))

    def size_of(self, length: int) -> None:
        return None

    def positive_lengths(self, lengths: Sequence[int]) -> list[int]:
        """The lengths of members that are drawn; rare ones may be missing."""
        if not lengths:
            return []
        try:
            drawn = self.sample(np.random.default_rng(DRAWN_SEED), DRAWN, lengths, True, "test")
        except LookupError:
            return []
        return sorted(set(drawn.words.lengths.tolist()))

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """Words that the other language draws, as tokens.

        Of a whole window (``lengths``) these are the words of its window. Of other lengths, words
        are drawn until there are enough with so many tokens; they come again if they are few.

        Raises:
            LookupError: none was found.
        """
        count, lengths = query.count, query.lengths
        last = max(lengths, default=0)
        if len(lengths) > 1 and list(lengths) == list(range(1, last + 1)):
            sizes = range(1, last // self.most + 1)
        else:
            least, _, most = self._rates
            sizes = range(max(1, int(min(lengths, default=1) / most)), int(last / least) + 2)
        of_base, targets = replace(query, lengths=sizes), np.asarray(lengths)
        sample = self._fitting(self.base._sample(rng, of_base), targets)
        for _ in range(TRIES):
            if len(sample.labels) >= count:
                break
            drawn = self.base._sample(rng, replace(of_base, count=max(count, LEAST)))
            sample = Sample.concatenate(sample, self._fitting(drawn, targets))
        if not len(sample.labels):
            raise LookupError(f"of {self.name} no such word of the lengths {list(lengths)} came up")
        rows = np.arange(count)
        if len(sample.labels) < count:
            rows = rng.integers(len(sample.labels), size=count)
        words = sample.words[rows]
        longest = int(words.lengths.max(initial=0))  # those that did not fit may have been longer
        return Sample(Words(words.ids[:, :longest], words.lengths), sample.labels[rows])

    def _fitting(self, drawn: Sample, lengths: np.ndarray) -> Sample:
        words = self.encoded(drawn.words)
        rows = np.isin(words.lengths, lengths)
        return Sample(words[rows], drawn.labels[rows])

    def example(self) -> Word:
        return self.tokeniser.encode(self.base.example())
