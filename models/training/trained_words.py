"""The words that training drew: drawn again, from the same seeds; none was kept."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from models.config import TrainConfig
from models.languages import Language, Words
from models.languages.disfluencies import said
from models.training.batches import draw, steps_at_once


class TrainedWords:
    """All words that the first ``steps`` training steps drew.

    A word that is only the beginning of one of them is not among them.

    Attributes:
        tokens: the number of tokens that these steps read, BOS among them; a word that was drawn
            twice counts twice.
    """

    def __init__(self, config: TrainConfig, language: Language, steps: int) -> None:
        at_once = steps_at_once(config)
        self._known, self.tokens = set[bytes](), 0
        for chunk in range(-(-steps // at_once)):
            count = (steps - chunk * at_once) * config.batch_size
            words = draw(config, language, chunk)[0][:count]
            self._known.update(_keys(said(words, language.vocabulary)))
            self.tokens += int(words.lengths.sum()) + len(words)

    def __len__(self) -> int:
        return len(self._known)

    def hold(self, words: Words) -> Bool[np.ndarray, " batch"]:
        """Whether each of these words was drawn."""
        return np.array([key in self._known for key in _keys(words)], dtype=bool)


def _keys(words: Words) -> Iterator[bytes]:
    for ids, length in zip(words.ids.astype(np.int32), words.lengths, strict=True):
        yield ids[:length].tobytes()
