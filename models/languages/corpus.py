"""Corpora: lines of a file. Nothing is known but the label of each line, or that it is one."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, get_args

import numpy as np
from jaxtyping import Bool, Int

from models.errors import UserError
from models.languages.files.lines import read_lines, read_texts
from models.languages.files.treebank import paths
from models.languages.grammars.trees import distances
from models.languages.language import (
    ChomskyType,
    Draw,
    Language,
    Sample,
    Split,
    VariableKind,
)
from models.languages.vocabulary import BORDER, END_ID, UNK, Vocabulary, Word, Words

SPLITS = get_args(Split)

MERGED = "…"
"""The beginning of a symbol that stands for several words, as ``UNK`` does; a number follows."""
MOST_WORDS = 10_000
"""The most different words: a model weighs every word at every position."""


def _without_rare(name: str, words: Sequence[Word], fewest: int) -> tuple[list[Word], str]:
    """The lines with ``UNK`` in the place of each word that stands in fewer lines than this, and a
    sentence on what went.

    Where more than ``MOST_WORDS`` different words would stay, it is more lines: the fewest that
    leave no more.

    Raises:
        UserError: no word would stay.
    """
    lines = Counter(symbol for word in words for symbol in {*word} - {UNK})
    kept = sum(count >= fewest for count in lines.values()) + (fewest > 0)
    if too_many := kept > MOST_WORDS:
        fewest = sorted(lines.values(), reverse=True)[MOST_WORDS - 1] + 1
    rare = {symbol for symbol, count in lines.items() if count < fewest}
    if too_many and len(rare) == len(lines):
        raise UserError(
            f"{name} has {len(lines):,} different words, each in fewer than {fewest} lines, and a "
            f"model learns {MOST_WORDS:,} at most: give lines whose words come again"
        )
    if not rare:
        return list(words), ""
    told = f"read as {UNK}, in fewer than {fewest} lines: {len(rare):,} of {len(lines):,} words"
    return [tuple(UNK if s in rare else s for s in word) for word in words], told


def check_sides(corpus: Language) -> None:
    """Raises UserError for a corpus without lines of both labels for training, or without lines for
    validation or the test."""
    pairs = BORDER in corpus.vocabulary.ids
    taught = (True, False) if corpus.knows_others and not pairs else (True,)
    sides: dict[Split, tuple[bool | None, ...]] = {"train": taught}
    for side, labels in {**sides, "validation": (None,), "test": (None,)}.items():
        for label in labels:
            draw = partial(corpus.sample, np.random.default_rng(0), 1, corpus.lengths(1))
            try:
                draw(label=label, split=side)
            except LookupError:
                if not pairs:
                    raise _too_few_lines(corpus, side) from None
                _check_targets(corpus, partial(draw, label=True, split=side), side)


def _check_targets(corpus: Language, right: Callable[[], Sample], side: str) -> None:
    """Raises UserError for pairs that are too few, or of which no wrong one can be made."""
    try:
        right()
    except LookupError:
        raise _too_few_lines(corpus, side) from None
    raise UserError(
        f"{corpus.name} has no wrong pair to judge a model by: all its targets of one length are "
        "alike; add sources with other targets"
    )


def _too_few_lines(corpus: Language, side: str) -> UserError:
    lines, kind, size = getattr(corpus, "lines", None), "lines", ""
    more = " of both labels" if corpus.knows_others else ""
    if isinstance(lines, Words):
        ids = lines.ids
        if border := corpus.vocabulary.ids.get(BORDER):
            ids = np.where((ids == border).cumsum(axis=1) > 0, 0, ids)
            kind, more = "sources", ""
        size = f" ({len(np.unique(ids, axis=0))} in {len(lines)} lines)"
    return UserError(
        f"{corpus.name} has too few different {kind}{size} to set {side} lines aside: add other "
        f"ones{more}"
    )


def sides_of(
    lines: Sequence[Word], labels: Sequence[bool], pairs: Sequence[tuple[int, int]] = ()
) -> Int[np.ndarray, " line"]:
    """The side of each line, as its place in ``SPLITS``: about 80% are for training.

    It depends on the words alone, so a repeated line cannot leak into the test. Of few lines, a
    label without one for training gets one there; then a side without a line takes one of those for
    training whose label has others there.

    Args:
        pairs: the places of two lines that are to be on one side.
    """
    hashes = [int(hashlib.sha256(" ".join(line).encode()).hexdigest(), 16) for line in lines]
    tied = {number: number for number in hashes}

    def first(number: int) -> int:
        """The smallest number that a line is tied to: it may be in several pairs."""
        while tied[number] != number:
            tied[number] = number = tied[tied[number]]
        return number

    for one, other in pairs:
        low, high = sorted((first(hashes[one]), first(hashes[other])))
        tied[high] = low
    numbers = [first(number) for number in hashes]
    side_of = {number: {8: 1, 9: 2}.get(number % 10, 0) for number in numbers}
    labels_of: dict[int, set[bool]] = {number: set() for number in numbers}
    for number, label in zip(numbers, labels, strict=True):
        labels_of[number].add(label)
    for label in set(labels):
        of_label = [number for number in side_of if label in labels_of[number]]
        if all(side_of[number] for number in of_label):
            side_of[min(of_label)] = 0
    for side in (1, 2):
        train = [number for number, at in side_of.items() if at == 0]
        counts = Counter(label for number in train for label in labels_of[number])
        spare = [n for n in train if all(counts[label] > 1 for label in labels_of[n])]
        if side not in side_of.values() and spare:
            side_of[min(spare)] = side
    return np.array([side_of[number] for number in numbers], dtype=np.int64)


def is_merged(symbol: str) -> bool:
    """Does a symbol stand for several words?"""
    return symbol == UNK or (symbol.startswith(MERGED) and symbol.removeprefix(MERGED).isdecimal())


class Corpus(Language):
    """Lines of a file. About 80% are for training, 10% for validation and 10% for the test: its
    three sides, by ``sides_of``.

    Attributes:
        told: what was made of its file, in a sentence; "" where it is read as it stands.
    """

    chomsky: ChomskyType = "finite sample"
    rationale_rule: ClassVar[str] = "none: the rule behind a corpus is not known"
    told = ""

    def __init__(
        self,
        name: str,
        vocabulary: Vocabulary,
        words: Sequence[Word],
        labels: Sequence[bool],
        sides: Int[np.ndarray, " line"],
    ) -> None:
        """
        Args:
            labels: whether each line is in the language.
            sides: the side of each line, as its place in ``SPLITS``.
        """
        self.name, self.vocabulary = name, vocabulary
        self.variables: dict[str, VariableKind] = {}
        self.lines = vocabulary.words(words)
        self.line_labels = np.array(labels, dtype=bool)
        self._split = sides

    # -- the truth, as far as it is known -------------------------------------------------------

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        return {}

    def allowed(self, words: Words) -> Bool[np.ndarray, "batch time_plus_1 vocabulary"]:
        """The tokens with which some line goes on; nothing else is known."""
        allowed = np.zeros((len(words), words.ids.shape[1] + 1, len(self.vocabulary)), dtype=bool)
        for row, (ids, length) in enumerate(
            zip(words.ids.tolist(), words.lengths.tolist(), strict=True)
        ):
            for at in range(length + 1):
                allowed[row, at, list(self._next.get(tuple(ids[:at]), ()))] = True
        return allowed

    @cached_property
    def _next(self) -> dict[tuple[int, ...], set[int]]:
        """The tokens that follow each beginning of a line."""
        following: defaultdict[tuple[int, ...], set[int]] = defaultdict(set)
        for ids, length in zip(self.lines.ids.tolist(), self.lines.lengths.tolist(), strict=True):
            for at in range(length + 1):
                following[tuple(ids[:at])].add(ids[at] if at < length else END_ID)
        return following

    # -- data -----------------------------------------------------------------------------------

    def side(self, *splits: Split) -> Bool[np.ndarray, " line"]:
        """Whether each line is on one of these sides."""
        return np.isin(self._split, [SPLITS.index(split) for split in splits])

    def lengths(self, max_n: int) -> range:
        """All lengths from the shortest line to the longest; the window plays no part."""
        return range(int(self.lines.lengths.min()), int(self.lines.lengths.max()) + 1)

    def positive_lengths(self, lengths: Sequence[int]) -> list[int]:
        return sorted(set(self.lines.lengths[self.line_labels].tolist()) & set(lengths))

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """Lines of this side of the corpus, each as likely as any other."""
        rows = np.isin(self.lines.lengths, np.asarray(query.lengths)) & self.side(query.split)
        if query.label is not None:
            rows &= self.line_labels == query.label
        if not rows.any():
            raise LookupError(
                f"{self.name} has no line of this length and label among its {query.split} lines"
            )
        drawn = rng.choice(np.flatnonzero(rows), query.count)
        return Sample(self.lines[drawn], self.line_labels[drawn])


class LabelledCorpus(Corpus):
    """Lines of words in two groups, from a file of lines ``label <tab> words``.

    The label of the first line is the positive one ("in the language"). Lines with a symbol that
    stands for several words may be equal and yet have both labels; the truth is then the commoner
    one, and of as many of each the second label. The two lines of a minimal pair are on one side,
    and each is the counterfactual of the other if they are as long.
    """

    default_objective: str = "verdict"

    def __init__(
        self,
        name: str,
        labels: Sequence[str],
        words: Sequence[Word],
        rare: int = 0,
        pairs: Sequence[tuple[int, int]] = (),
    ) -> None:
        """
        Args:
            rare: words in fewer lines are read as ``UNK``, and so is every unknown word from then
                on; of more than ``MOST_WORDS`` different words the rarest are in any case.
            pairs: the places of two lines that are a minimal pair.

        Raises:
            UserError: the lines do not have exactly two labels; one line has both and no symbol
                that stands for several words; or all words would be rare.
        """
        names = list(dict.fromkeys(labels))
        if len(names) != 2:
            raise UserError(
                f"{name}: found {len(names)} label(s) ({', '.join(names[:4]) or 'no line'}): "
                "a corpus needs lines of exactly two labels (`lab rule` takes more)"
            )
        self.positive, self.negative = names
        words, told = _without_rare(name, words, rare)
        positive = [label == self.positive for label in labels]
        votes, both = Counter[Word](), set[Word]()
        for word, label in zip(words, positive, strict=True):
            before = votes[word]
            votes[word] += 1 if label else -1
            if abs(votes[word]) < abs(before):
                if not any(map(is_merged, word)):
                    raise UserError(
                        f"{name}: the line {' '.join(word)!r} has both labels: keep one"
                    )
                both.add(word)
        if both:
            told += f"; lines that have both labels for it: {len(both):,}, the commoner one counts"
        self._truth = {word: vote > 0 for word, vote in votes.items()}
        vocabulary = _vocabulary(words, rare)
        super().__init__(name, vocabulary, words, positive, sides_of(words, positive, pairs))
        self.told = told
        ways = [*pairs, *((other, one) for one, other in pairs)]
        self._partners = {words[one]: words[other] for one, other in reversed(ways)}

    @classmethod
    def from_file(cls, path: Path, name: str | None = None, rare: int = 0) -> LabelledCorpus:
        """The corpus of a file, named after it unless ``name`` is given.

        Raises:
            UserError: the file cannot be read, or it is malformed.
        """
        labels, words, shape, pairs = read_lines(path)
        corpus = cls(name or path.stem, labels, words, rare, pairs)
        corpus.told = "; ".join(filter(None, (shape, corpus.told)))
        return corpus

    # -- the truth, as far as it is known -------------------------------------------------------

    def labels(self, words: Words) -> np.ndarray:
        """The label of each line. Raises UserError for a line that is not in the corpus."""
        answers = []
        for word in self.vocabulary.decoded(words):
            if word not in self._truth:
                raise UserError(
                    f"the line {' '.join(word)!r} is not in {self.name}: "
                    "the true label of other lines is not known"
                )
            answers.append(self._truth[word])
        return np.array(answers, dtype=bool)

    def allowed(self, words: Words) -> np.ndarray:
        """Allows only END, and only at the end of a positive line: nothing else is known."""
        allowed = np.zeros((len(words), words.ids.shape[1] + 1, len(self.vocabulary)), dtype=bool)
        allowed[np.arange(len(words)), words.lengths, END_ID] = self.labels(words)
        return allowed

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The other line of a minimal pair, or the nearest line with the other label. Only lines of
        the corpus have a known label."""
        label = not self.contains(word)
        partner = self._partners.get(word, ())
        if len(partner) == len(word) and self._truth[partner] == label:
            return partner
        rows = np.flatnonzero((self.line_labels == label) & (self.lines.lengths == len(word)))
        if not len(rows):
            raise LookupError(f"{self.name} has no line of {len(word)} words with the other label")
        ids = self.vocabulary.words([word]).ids[0]
        distance = (self.lines.ids[rows, : len(word)] != ids).sum(axis=1)
        nearest = rows[distance == distance.min()]
        row = nearest[0] if rng is None else rng.choice(nearest)
        return self.vocabulary.decode(self.lines.ids[row, : len(word)])

    # -- data -----------------------------------------------------------------------------------

    def sides(self, *splits: Split) -> tuple[list[Word], np.ndarray]:
        """The lines of the given sides and their labels; a line that occurs twice comes twice."""
        rows = np.flatnonzero(self.side(*splits))
        return self.vocabulary.decoded(self.lines[rows]), self.line_labels[rows]


class UnlabelledCorpus(Corpus):
    """Lines without labels, for a language model: each is in the language, and which others are is
    not known. Of a treebank the tree of each line is known; of equal lines that of the first."""

    default_objective: str = "language-model"
    knows_others = False

    def __init__(
        self,
        name: str,
        words: Sequence[Word],
        rare: int = 0,
        heads: Sequence[tuple[int, ...]] = (),
    ) -> None:
        """
        Args:
            rare: as in ``LabelledCorpus``.
            heads: of a treebank the heads of the words of each line, as in ``files.treebank``.

        Raises:
            UserError: all words would be rare.
        """
        words, told = _without_rare(name, words, rare)
        every = [True] * len(words)
        super().__init__(name, _vocabulary(words, rare), words, every, sides_of(words, every))
        self.told = told
        trees = zip(reversed(words), reversed(heads), strict=True) if heads else ()
        self.heads = {word: of_words for word, of_words in trees if of_words}

    @classmethod
    def from_file(cls, path: Path, name: str | None = None, rare: int = 0) -> UnlabelledCorpus:
        """The lines of a file, whose labels are left out if it has some.

        Raises:
            UserError: the file cannot be read, or it is malformed.
        """
        words, shape, heads = read_texts(path)
        corpus = cls(name or path.stem, words, rare, heads)
        corpus.told = "; ".join(filter(None, (shape, corpus.told)))
        return corpus

    def tree_distances(self, word: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
        heads = self.heads.get(self.vocabulary.check(word))
        return None if heads is None else distances(paths(heads))

    def labels(self, words: Words) -> np.ndarray:
        """True for each line. Raises UserError for one that is not in the corpus."""
        right = self.are_lines(words)
        if not right.all():
            word = self.vocabulary.decoded(words)[int(right.argmin())]
            raise UserError(
                f"{' '.join(word)!r} is no line of {self.name}: which other lines are right is not "
                "known"
            )
        return right

    def are_lines(self, words: Words) -> Bool[np.ndarray, " batch"]:
        """Whether each word is a line of the corpus."""
        return super().labels(words)

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        raise LookupError(f"which lines are wrong is not known in {self.name}")


def _vocabulary(words: Sequence[Word], rare: int) -> Vocabulary:
    """All symbols of lines, in order; ``UNK`` among them where rare words are read as it."""
    return Vocabulary(
        tuple(sorted({s for word in words for s in word} | ({UNK} if rare else set())))
    )
