"""Transductions: languages of pairs, in which the source alone decides the target.

A pair is written as one word, ``source > target``. A model that reads it from left to right is
asked for the target after the border ``>``; an encoder-decoder reads the source with its encoder.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Int

from models.languages.grammars.drawn import DrawnLanguage
from models.languages.language import FormalLanguage, VariableKind
from models.languages.vocabulary import BORDER, END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

MOST_SOURCES = 2**12
"""The most beginnings of sources that are looked at to find the nearest pair."""
Alignment = tuple[tuple[int, ...], ...]
"""The positions of the source, from 0, that each target symbol comes from."""


def split_pair(word: Sequence[str]) -> tuple[Word, Word]:
    """Source and target of a pair; the target is empty before the border."""
    word = tuple(word)
    cut = word.index(BORDER) if BORDER in word else len(word)
    return word[:cut], word[cut + 1 :]


def _substitutions(word: Word, other: Word) -> int:
    return sum(a != b for a, b in zip(word, other, strict=True))


class Transduction(DrawnLanguage):
    """All pairs of a source and its target.

    Variables: ``side`` (0 in the source, 1 after the border), ``due`` (which token must come next,
    by number; 0 in the source), ``remaining`` (how many target symbols are still to come; 0 in the
    source), ``from`` (the first source position, from 1, that the next symbol comes from; 0 in the
    source and at the end) and ``valid``.

    Attributes:
        source: the language of the sources. Its symbols are the first ones of the vocabulary.
    """

    default_objective = "sequence-to-sequence"
    rationale_rule: ClassVar[str] = (
        "in a right pair, the positions where some other symbol alone would break it; in another "
        "pair, the positions of the target that must change to fit its source; none where the "
        "source is no source, or no target of this length fits it"
    )
    source: FormalLanguage
    variables: dict[str, VariableKind]

    def __init__(
        self, name: str, source: FormalLanguage, others: Sequence[str], rule: str | None
    ) -> None:
        """
        Args:
            others: symbols that stand in targets alone.
            rule: completes "a pair is in it if its target ..."
        """
        self.name, self.source = name, source
        self.rule = rule
        self.vocabulary = Vocabulary((*source.vocabulary.symbols, *others, BORDER))
        self.border = self.vocabulary.ids[BORDER]
        self.variables = {
            "side": "category",
            "due": "category",
            "remaining": "count",
            "from": "count",
            "valid": "category",
        }

    @property
    def machine(self) -> str:
        kinds = {"regular": "a finite automaton", "context-free": "a stack"}
        return kinds.get(self.chomsky, "a queue, or a tape as long as the word")

    # -- the truth ------------------------------------------------------------------------------

    @abstractmethod
    def target(self, source: Word) -> Word:
        """The target of a source, which is a member of ``source``."""

    @abstractmethod
    def alignment(self, source: Word) -> Alignment:
        """The positions of a source, a member of ``source``, that each target symbol comes from."""

    def pair(self, source: Sequence[str]) -> Word:
        """A source with the border and its target.

        Raises:
            UserError: the source has an unknown symbol.
            LookupError: it is no source.
        """
        word = self.source.vocabulary.check(source)
        if not word or not self.source.contains(word):
            raise LookupError(f"{' '.join(word)!r} is no source of {self.name}")
        return (*word, BORDER, *self.target(word))

    def split(self, word: Sequence[str]) -> tuple[Word, Word]:
        """Source and target of a pair; the target is empty before the border."""
        return split_pair(word)

    def _cuts(self, words: Words) -> Int[np.ndarray, " batch"]:
        """The number of symbols before the first that is none of a source."""
        limit = FIRST_SYMBOL_ID + len(self.source.vocabulary.symbols)
        foreign = (words.ids >= limit) & words.mask
        first = np.pad(foreign, ((0, 0), (0, 1))).argmax(axis=1)
        return np.array(np.where(foreign.any(axis=1), first, words.lengths))

    def _sides(
        self, words: Words
    ) -> tuple[Bool[np.ndarray, "batch time_plus_1 vocabulary"], list[tuple[int, Word, Word]]]:
        """The tokens with which the source may go on; and for each word with a whole source before
        its border: its row, the source and its target."""
        limit = FIRST_SYMBOL_ID + len(self.source.vocabulary.symbols)
        cut = self._cuts(words)
        follow = self.source.allowed(Words.of_rows(words.ids, cut))
        allowed = np.zeros((len(words), words.ids.shape[1] + 1, len(self.vocabulary)), dtype=bool)
        on_source = np.arange(allowed.shape[1]) <= cut[:, None]
        allowed[..., :limit] = follow & on_source[..., None]
        allowed[..., self.border] = allowed[..., END_ID]
        allowed[:, 0, self.border] = False  # no source is empty
        allowed[..., END_ID] = False
        rows = np.arange(len(words))
        symbols = np.pad(words.ids, ((0, 0), (0, 1)), constant_values=END_ID)
        at_border = (symbols[rows, cut] == self.border) & allowed[rows, cut, self.border]
        ended, targets = [], dict[Word, Word]()  # many words may have one source
        for row in np.flatnonzero(at_border).tolist():
            source = self.vocabulary.decode(words.ids[row, : cut[row]])
            if source not in targets:
                targets[source] = self.target(source)
            ended.append((row, source, targets[source]))
        return allowed, ended

    def labels(self, words: Words) -> np.ndarray:
        """Labels as in ``Language``: of each source that comes before a border the one right pair
        is made, and nothing that may follow is asked for."""
        words = Words.of_rows(words.ids, words.lengths)
        cuts = self._cuts(words)
        rows = np.flatnonzero((cuts > 0) & (cuts < words.lengths))
        rows = rows[words.ids[rows, cuts[rows]] == self.border]
        labels = np.zeros(len(words), dtype=bool)
        if not len(rows):
            return labels
        before = Words.of_rows(words.ids[rows], cuts[rows]).ids
        ids, back = np.unique(before, axis=0, return_inverse=True)
        sources = Words(ids, (ids != END_ID).sum(axis=1))
        pairs = list[Word]()
        for row, whole in enumerate(self.source.labels(sources)):
            source = self.vocabulary.decode(ids[row, : sources.lengths[row]])
            pairs.append((*source, BORDER, *self.target(source)) if whole else ())
        right, back = self.vocabulary.words(pairs), back.ravel()
        width = min(right.ids.shape[1], words.ids.shape[1])
        same = (right.ids[back, :width] == words.ids[rows, :width]).all(axis=1)
        labels[rows] = same & (right.lengths[back] == words.lengths[rows])
        return labels

    def allowed(self, words: Words) -> np.ndarray:
        allowed, ended = self._sides(words)
        for row, source, target in ended:
            due, begin, right = self._after_border(words, row, source, target)
            allowed[row, begin + np.arange(right + 1), due[: right + 1]] = True
        return allowed

    def _after_border(
        self, words: Words, row: int, source: Word, target: Word
    ) -> tuple[np.ndarray, int, int]:
        """The tokens that must come after the border, the prefix at which the first must, and the
        number of them that did."""
        due = np.array([*(self.vocabulary.ids[symbol] for symbol in target), END_ID])
        begin, length = len(source) + 1, int(words.lengths[row])
        came = words.ids[row, begin:length][: len(target)]
        wrong = np.flatnonzero(came != due[: len(came)])
        return due, begin, int(wrong[0]) if len(wrong) else len(came)

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        allowed, ended = self._sides(words)
        zeros = np.zeros(allowed.shape[:2], dtype=np.int64)
        traced: dict[str, np.ndarray] = {name: zeros.copy() for name in self.variables}
        traced["valid"] = np.asarray(allowed.any(axis=2), dtype=np.int64)
        for row, source, target in ended:
            due, begin, right = self._after_border(words, row, source, target)
            span = slice(begin, begin + right + 1)
            traced["valid"][row, span] = 1
            traced["side"][row, begin:] = 1
            traced["due"][row, span] = due[: right + 1] - END_ID + 1
            traced["remaining"][row, span] = len(target) - np.arange(right + 1)
            comes = [(places[0] + 1 if places else 0) for places in self.alignment(source)]
            traced["from"][row, span] = [*comes, 0][: right + 1]
        return traced

    # -- nearby pairs ---------------------------------------------------------------------------

    def _repaired(self, word: Word) -> Word | None:
        """The same source with its own target, if that has this length."""
        source, target = self.split(word)
        symbols = set(self.source.vocabulary.symbols)
        if len(source) == len(word) or not source or not symbols.issuperset(source):
            return None
        if not self.source.contains(source):
            return None
        right = self.target(source)
        return (*source, BORDER, *right) if len(right) == len(target) else None

    def rationales(self, word: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """One set, by ``rationale_rule``."""
        word = self.vocabulary.check(word)
        return super().rationales(word) if self.contains(word) else self._repairs(word)

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        right = self._repaired(word)
        if right is None:
            return None
        return (tuple(i for i, (a, b) in enumerate(zip(word, right, strict=True)) if a != b),)

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The nearest pair; where very many sources would have to be looked at, the nearest of
        those that were, of the same source with its own target, and else of some pair."""
        spare = self._repaired(word)
        if spare is None:
            drawn = self._members(rng or np.random.default_rng(0), np.array([len(word)]))
            spare = self.vocabulary.decode(drawn.ids[0])
        pairs = defaultdict(set, {_substitutions(word, spare): {spare}})  # by how far they are
        for changes in range(min(pairs) + (rng is not None)):
            sources = self._sources_near(word, changes)
            if sources is None:
                break
            for source in sources:
                pair = (*source, BORDER, *self.target(source))
                if len(pair) == len(word):
                    pairs[_substitutions(word, pair)].add(pair)
            if changes in pairs:
                break
        nearest = sorted(pairs[min(pairs)], key=lambda pair: self._order(word, pair))
        if rng is None:
            return spare if spare in nearest else nearest[0]
        return nearest[rng.integers(len(nearest))]

    def _sources_near(self, word: Word, changes: int) -> list[Word] | None:
        """The sources that with their border take so many substitutions; None if too many begin
        so near."""
        ids, near = self.vocabulary.words([word]).ids[0], list[np.ndarray]()
        begun, cost = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
        for at, symbol in enumerate(ids[: self._longest_source(len(ids)) + 1]):
            follow = self.source.allowed(Words(begun, np.full(len(begun), at)))[:, at]
            ended = follow[:, END_ID] & (cost + (symbol != self.border) == changes)
            near += list(begun[ended & (at > 0)])
            row, token = np.nonzero(follow[:, FIRST_SYMBOL_ID:])
            token += FIRST_SYMBOL_ID
            cost = cost[row] + (token != symbol)
            kept = cost <= changes
            begun, cost = np.column_stack([begun[row], token])[kept], cost[kept]
            if len(begun) > MOST_SOURCES:
                return None
        return [self.vocabulary.decode(source) for source in near]

    def _longest_source(self, length: int) -> int:
        """The most symbols that the source of a pair of this length may have."""
        return length - 1

    def _order(self, word: Word, pair: Word) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The places that differ, then by how much."""
        ids, other = self.vocabulary.words([word, pair]).ids
        places = np.flatnonzero(ids != other)
        by = (other - ids)[places] % len(self.vocabulary.symbols)
        return tuple(places.tolist()), tuple(by.tolist())

    # -- data -----------------------------------------------------------------------------------

    @abstractmethod
    def _members(self, rng: np.random.Generator, lengths: Int[np.ndarray, " batch"]) -> Words: ...
