"""A corpus of pairs: nothing is known but which targets belong to the sources of its lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from models.errors import UserError
from models.languages.corpus import MOST_WORDS, Corpus, sides_of
from models.languages.files.lines import read_columns
from models.languages.language import Draw, Sample
from models.languages.pairs.transduction import split_pair
from models.languages.vocabulary import BORDER, Vocabulary, Word, Words

HEADERS = {"source", "input", "from"}


class PairCorpus(Corpus):
    """Pairs from a file of lines ``source <tab> target``.

    A source may have several targets. About 80% of the sources are for training, 10% for validation
    and 10% for the test; all lines of one source fall on the same side. Which other targets a
    source may have is not known: what stands in no line counts as a wrong pair.
    """

    default_objective: str = "sequence-to-sequence"

    def __init__(self, name: str, sources: Sequence[Word], targets: Sequence[Word]) -> None:
        """
        Raises:
            UserError: there is no line, a line has the border as a word, or there are too many
                different words.
        """
        if not sources:
            raise UserError(f"{name} has no line: write source, tab, target")
        words = [(*left, BORDER, *right) for left, right in zip(sources, targets, strict=True)]
        for number, word in enumerate(words, 1):
            if word.count(BORDER) > 1:
                raise UserError(
                    f"{name}, pair {number} has the word {BORDER}, which stands between source and "
                    "target: write another one"
                )
        symbols = sorted({symbol for word in words for symbol in word} - {BORDER})
        if len(symbols) > MOST_WORDS:
            raise UserError(
                f"{name} has {len(symbols)} different words, and a model learns {MOST_WORDS} at "
                "most: replace rare words"
            )
        every = [True] * len(words)
        vocabulary = Vocabulary((*symbols, BORDER))
        super().__init__(name, vocabulary, words, every, sides_of(sources, every))
        ids, lengths = self.lines.ids, self.lines.lengths
        self._begins = (ids == self.vocabulary.ids[BORDER]).argmax(axis=1) + 1
        self._targets: defaultdict[bytes, set[bytes]] = defaultdict(set)
        for row, begin in enumerate(self._begins.tolist()):
            target = ids[row, begin : lengths[row]]
            self._targets[ids[row, :begin].tobytes()].add(target.tobytes())
        of_targets = {symbol for target in targets for symbol in target}
        self._target_symbols = np.array(sorted(self.vocabulary.ids[s] for s in of_targets))
        self._wrong_pairs: dict[tuple[int, bool], np.ndarray | None] = {}

    @classmethod
    def from_file(cls, path: Path, name: str | None = None) -> PairCorpus:
        """The pairs of a file, named after it unless ``name`` is given.

        Raises:
            UserError: the file cannot be read, or it is malformed.
        """
        sources, targets = read_columns(path, ("source", "target"), HEADERS)
        return cls(name or path.stem, [tuple(s.split()) for s in sources], targets)

    def split(self, word: Sequence[str]) -> tuple[Word, Word]:
        """Source and target of a pair."""
        return split_pair(word)

    # -- the truth, as far as it is known -------------------------------------------------------

    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word:
        raise LookupError(f"which other targets a source may have is not known in {self.name}")

    # -- data -----------------------------------------------------------------------------------

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """Lines of this side of the corpus, each as likely as any other, and their sources with
        wrong targets: those of other lines; if ``hard``, or where no other line fits, the own
        target with another symbol in one place."""
        count, split, hard = query.count, query.split, query.hard
        fit = np.isin(self.lines.lengths, np.asarray(query.lengths))
        rows = np.flatnonzero(fit & self.side(split))
        if query.label is not False and not len(rows):
            raise LookupError(f"{self.name} has no such pair among its {split} lines")
        labels = rng.random(count) < 0.5 if query.label is None else np.full(count, query.label)
        if not labels.all():
            rows = rows[[self._wrong(row, hard) is not None for row in rows.tolist()]]
        if not len(rows):
            raise LookupError(f"{self.name} has no wrong pair beside its {split} lines")
        drawn = rng.choice(rows, count)
        ids = self.lines.ids[drawn]
        for at in np.flatnonzero(~labels).tolist():
            wrong = self._wrong(int(drawn[at]), hard)
            assert wrong is not None
            ids[at] = wrong[rng.integers(len(wrong))]
        return Sample(Words(ids, self.lines.lengths[drawn]), labels)

    def _wrong(self, row: int, hard: bool) -> Int[np.ndarray, "wrong time"] | None:
        """The wrong pairs with the source of a line, all as long; None if there are none."""
        if (row, hard) not in self._wrong_pairs:
            self._wrong_pairs[row, hard] = self._wrong_of(self.lines.ids[row], row, hard)
        return self._wrong_pairs[row, hard]

    def _wrong_of(
        self, ids: Int[np.ndarray, " time"], row: int, hard: bool
    ) -> Int[np.ndarray, "wrong time"] | None:
        begin, length = int(self._begins[row]), int(self.lines.lengths[row])
        targets = np.empty((0, length - begin), np.int64)
        if not hard:
            match = self.lines.lengths - self._begins == length - begin
            at = self._begins[match, None] + np.arange(length - begin)
            targets = np.unique(np.take_along_axis(self.lines.ids[match], at, axis=1), axis=0)
        right = self._targets[ids[:begin].tobytes()]
        wrong = [target for target in targets if target.tobytes() not in right]
        if not wrong:
            answer, symbols = ids[begin:length], self._target_symbols
            places, fills = np.arange(length - begin), np.tile(symbols, length - begin)
            changed = np.tile(answer, (len(fills), 1))
            changed[np.arange(len(fills)), np.repeat(places, len(symbols))] = fills
            wrong = [target for target in changed if target.tobytes() not in right]
        if not wrong:
            return None
        pairs = np.tile(ids, (len(wrong), 1))
        pairs[:, begin:length] = wrong
        return pairs
