"""The set of next symbols at every position: the teacher of a language whose truth is known."""

from __future__ import annotations

import numpy as np

from models.languages import BOS_ID, Language, Vocabulary, Words
from models.objectives.base import Batch, Objective
from models.objectives.readout import Readout


class NextSymbols(Objective):
    """The tokens that may follow, END among them, after BOS and after every symbol."""

    name = "next-symbols"
    caption = "At every position, which symbols may come next, each judged by itself."
    taught = "the next symbols at every position"
    alike_in_prefixes = True

    def _batch(self, language: Language, words: Words, readout: Readout) -> Batch:
        """The teacher is silent past a word's end, and about BOS, which may never follow."""
        position = np.arange(words.ids.shape[1] + 1)
        inside = position <= words.lengths[:, None]
        weight = np.repeat(inside[..., None], len(language.vocabulary), axis=2)
        weight[..., BOS_ID] = False
        return Batch.of(words, language.allowed(words) & weight, weight)

    def tokens(self, vocabulary: Vocabulary) -> tuple[str, ...]:
        return vocabulary.tokens[BOS_ID + 1 :]
