"""One verdict on each word: the teacher of a recogniser, and of a corpus of labelled lines."""

from __future__ import annotations

import numpy as np

from models.languages import END, END_ID, Language, Vocabulary, Words
from models.languages.disfluencies import said_and_meant
from models.objectives.base import Batch, Objective
from models.objectives.readout import Readout, read_at


class Verdict(Objective):
    """One question per word: may END follow, at the position where the verdict is read?"""

    name = "verdict"
    caption = "Only whether the whole word is in the language."
    taught = "one verdict a word"
    verdict_alone = True

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """The one answer on a word stands at its last symbol, or at BOS.

        Args:
            words: their labels may be written into them (``disfluencies.with_labels``).
        """
        words, labels = said_and_meant(words, language)
        rows, at = np.arange(len(words)), read_at(readout, words.lengths)
        weight = np.zeros((*words.tokens.shape, len(language.vocabulary)), dtype=bool)
        weight[rows, at, END_ID] = True
        target = np.zeros_like(weight)
        target[rows, at, END_ID] = labels
        return Batch.of(words, target, weight)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return (END,)
