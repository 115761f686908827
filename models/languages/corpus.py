"""A corpus of labelled lines: nothing is known but the label of each line."""

from __future__ import annotations

import hashlib
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar, NamedTuple, get_args

import numpy as np
from jaxtyping import Int

from models.errors import UserError
from models.languages.language import (
    ChomskyType,
    Draw,
    Language,
    Sample,
    Split,
    VariableKind,
)
from models.languages.reading.line_shapes import HEADERS, labelled, paired, refuse_others, unquoted
from models.languages.vocabulary import BORDER, END_ID, UNK, Vocabulary, Word, Words
from models.reading import one_form, read_bytes, read_text

SPLITS = get_args(Split)


MOST_BYTES = 64 * 2**20
MERGED = "…"
"""The beginning of a symbol that stands for several words, as ``UNK`` does; a number follows."""
MOST_WORDS = 2000
"""The most different words: a model weighs every word at every position."""


class _Lines(NamedTuple):
    """Labelled lines of a file.

    Attributes:
        shape: what the file was taken for, in a sentence; "" for label, tab, words.
        pairs: the places of two lines that are a minimal pair.
    """

    labels: list[str]
    words: list[Word]
    shape: str
    pairs: list[tuple[int, int]]


def read_lines(path: Path, longest: int = 10_000) -> _Lines:
    """The labels and words of a file of lines ``label <tab> words``, or of one of ``line_shapes``.

    A header line may come first: one of ``HEADERS`` stands where the label would be, and no other
    line has it as its label.

    Args:
        longest: the most words in a line.

    Lines without words are left out, as ``shape`` then says: a network reads a symbol at least.

    Raises:
        UserError: the file cannot be read or is too large, is no text, or a line is malformed; or
            none has words.
    """
    layout = "label, tab, words"
    text, encoding = _text(path, f"give a file of lines, {layout}")
    lines = _split(text)
    cells, shape = labelled(lines, str(path)) or (None, "")
    if cells is None:
        labels, words = _columns(lines, path, ("label", "words"), HEADERS, longest, least=0)
    else:
        labels, words = _cells(cells, path, ("label", "words"), longest, least=0)
    empty = [label for label, line in zip(labels, words, strict=True) if not line]
    if empty and len(empty) == len(labels):
        raise UserError(f"{path}: no line has words: write {layout}")
    out = f"lines without words left out: {len(empty)}, labelled {', '.join(dict.fromkeys(empty))}"
    told = "; ".join(filter(None, (shape, encoding, out if empty else "")))
    labels = [label for label, line in zip(labels, words, strict=True) if line]
    # Two lines of one place in the file are a pair.
    places = [at for (at, _), line in zip(cells, words, strict=True) if line] if cells else []
    pairs = [(n, n + 1) for n, (one, other) in enumerate(pairwise(places)) if one == other]
    return _Lines(labels, [line for line in words if line], told, pairs)


def read_columns(
    path: Path, columns: tuple[str, str], headers: Collection[str], longest: int = 10_000
) -> tuple[list[str], list[Word]]:
    """The two columns of a file of lines with a tab: what stands before it, and the words after it.

    A header line may come first: one of ``headers`` stands before its tab, and before no other.

    Args:
        columns: the names of the columns, for errors.
        longest: the most words after a tab.

    Raises:
        UserError: the file cannot be read or is too large, is no text, or a line is malformed.
    """
    layout = ", tab, ".join(columns)
    text, _ = _text(path, f"give a file of lines, {layout}")
    lines = _split(text)
    if (pairs := paired(lines)) is not None:
        first, *others = (source.strip().lower() for source, _ in pairs)
        start = int(first in headers and first not in others)
        return _cells(list(enumerate(pairs, 1))[start:], path, columns, longest)
    refuse_others(lines, str(path), layout)
    return _columns(lines, path, columns, headers, longest)


def _text(path: Path, cure: str) -> tuple[str, str]:
    """The text of a file, and a note on its encoding; "" for UTF-8."""
    content = read_bytes(path, cure, MOST_BYTES)
    wide = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    with suppress(UnicodeDecodeError):
        if wide:
            return one_form(content.decode("utf-16")), "in UTF-16"
    try:
        return read_text(path, cure, MOST_BYTES), ""
    except UserError:
        # Bytes that no text of Western Europe has are those of another kind of file.
        if wide or re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", content):
            raise
        return one_form(content.decode("latin-1")), "in Latin-1, since it is not UTF-8"


def _split(text: str) -> list[str]:
    """The lines of a text, without blank ones at its end."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    return list(unquoted(lines))


def _columns(
    lines: Sequence[str],
    path: Path,
    columns: tuple[str, str],
    headers: Collection[str],
    longest: int,
    least: int = 1,
) -> tuple[list[str], list[Word]]:
    layout = ", tab, ".join(columns)
    first, *heads = (line.split("\t")[0].strip(' "') for line in lines or [""])
    start = int(first.lower() in headers and first not in heads)
    for number, line in enumerate(lines[start:], start + 1):
        where = f"{path}, line {number}"
        if not line.strip():
            raise UserError(f"{where}: the line is empty: remove it")
        if line.count("\t") != 1:
            raise UserError(
                f"{where}: expected one tab, found {line.count(chr(9))}: write {layout}"
            )
    cells = zip(*(line.split("\t") for line in lines[start:]), strict=True)
    pairs = zip(*(unquoted(column) for column in cells), strict=True)
    return _cells(list(enumerate(pairs, start + 1)), path, columns, longest, least)


def _cells(
    pairs: Iterable[tuple[int, tuple[str, ...]]],
    path: Path,
    columns: tuple[str, str],
    longest: int,
    least: int = 1,
) -> tuple[list[str], list[Word]]:
    """The two cells of each numbered line, the second one as so many words at least."""
    firsts, words = [], []
    for number, cells in pairs:
        before, rest = map(one_form, cells)  # escapes of JSON may have another
        where, (left, right) = f"{path}, line {number}", columns
        if not before.strip():
            raise UserError(f"{where} has no {left}: write {left}, tab, {right}")
        if len(rest.split()) < least:
            raise UserError(f"{where} has no {right}: take the line out")
        if len(rest.split()) > longest:
            raise UserError(f"{where} has {len(rest.split())} words: cut it to {longest} at most")
        firsts.append(before.strip())
        words.append(tuple(rest.split()))
    return firsts, words


def _without_rare(words: Sequence[Word], fewest: int) -> list[Word]:
    """The lines with ``UNK`` in the place of each word that stands in fewer lines than this."""
    lines = Counter(symbol for word in words for symbol in set(word))
    return [tuple(s if lines[s] >= fewest else UNK for s in word) for word in words]


def _fewest_lines(words: Sequence[Word]) -> int:
    """The smallest number of lines that leaves ``MOST_WORDS`` different words, ``UNK`` among
    them, if words in fewer lines are replaced."""
    lines = Counter(symbol for word in words for symbol in {*word} - {UNK})
    often = sorted(lines.values(), reverse=True)
    return often[MOST_WORDS - 1] + 1


def check_sides(corpus: Language) -> None:
    """Raises UserError for a corpus without lines of both labels for training, or without lines for
    validation or the test."""
    pairs = BORDER in corpus.vocabulary.ids
    sides: dict[Split, tuple[bool | None, ...]] = {"train": (True,) if pairs else (True, False)}
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
    lines, kind, size, more = getattr(corpus, "lines", None), "lines", "", " of both labels"
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


class LabelledCorpus(Language):
    """Lines of words in two groups, from a file of lines ``label <tab> words``.

    The label of the first line is the positive one ("in the language"). About 80% of the lines are
    for training, 10% for validation and 10% for the test: its three sides, by ``sides_of``. Lines
    with a symbol that stands for several words may be equal and yet have both labels; the truth is
    then the commoner one, and of as many of each the second label. The two lines of a minimal pair
    are on one side, and each is the counterfactual of the other if they are as long.
    """

    chomsky: ChomskyType = "finite sample"
    default_objective: str = "verdict"
    rationale_rule: ClassVar[str] = "none: the rule behind a corpus is not known"
    shape = ""
    """The shape that its file was taken for, in a sentence; "" for label, tab, words."""

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
                on.
            pairs: the places of two lines that are a minimal pair.

        Raises:
            UserError: the lines do not have exactly two labels, one line has both and no symbol
                that stands for several words, or there are too many different words.
        """
        names = list(dict.fromkeys(labels))
        if len(names) != 2:
            raise UserError(
                f"{name}: found {len(names)} label(s) ({', '.join(names[:4]) or 'no line'}): "
                "a corpus needs lines of exactly two labels (`lab rule` takes more)"
            )
        self.name = name
        self.positive, self.negative = names
        if rare:
            words = _without_rare(words, rare)
        symbols = sorted({symbol for word in words for symbol in word} | ({UNK} if rare else set()))
        if len(symbols) > MOST_WORDS:
            raise UserError(
                f"{name} has {len(symbols)} different words, and a model learns {MOST_WORDS} at "
                f"most: replace rare words with --rare {_fewest_lines(words)}"
            )
        self.vocabulary = Vocabulary(tuple(symbols))
        self.variables: dict[str, VariableKind] = {}
        self.lines = self.vocabulary.words(words)
        self.line_labels = np.array([label == self.positive for label in labels])
        votes: Counter[Word] = Counter()
        for word, label in zip(words, self.line_labels, strict=True):
            before = votes[word]
            votes[word] += 1 if label else -1
            if abs(votes[word]) < abs(before) and not any(map(is_merged, word)):
                raise UserError(f"{name}: the line {' '.join(word)!r} has both labels: keep one")
        self._truth = {word: vote > 0 for word, vote in votes.items()}
        self._split = sides_of(words, self.line_labels.tolist(), pairs)
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
        corpus.shape = shape
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

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        return {}

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
        rows = np.flatnonzero(np.isin(self._split, [SPLITS.index(split) for split in splits]))
        return self.vocabulary.decoded(self.lines[rows]), self.line_labels[rows]

    def lengths(self, max_n: int) -> range:
        """All lengths from the shortest line to the longest; the window plays no part."""
        return range(int(self.lines.lengths.min()), int(self.lines.lengths.max()) + 1)

    def positive_lengths(self, lengths: Sequence[int]) -> list[int]:
        return sorted(set(self.lines.lengths[self.line_labels].tolist()) & set(lengths))

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """Lines of this side of the corpus, each as likely as any other."""
        rows = np.isin(self.lines.lengths, np.asarray(query.lengths))
        rows &= self._split == SPLITS.index(query.split)
        if query.label is not None:
            rows &= self.line_labels == query.label
        if not rows.any():
            raise LookupError(
                f"{self.name} has no line of this length and label among its {query.split} lines"
            )
        drawn = rng.choice(np.flatnonzero(rows), query.count)
        return Sample(self.lines[drawn], self.line_labels[drawn])
