"""A regular language whose training lines carry a planted shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from models.languages.language import Sample, Split, Spread
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import Words


class PlantedLanguage(RegularLanguage):
    """A regular language with a flaw in its training words: the shortcut goes with the label.

    A model that relies on the shortcut is right for the wrong reason. The words of the other splits
    are clean and show what this costs. A true explanation of such a model must name the shortcut,
    which is one of the inert symbols.

    Attributes:
        planted: share of the training words that are changed. A member without the shortcut then
            gets it in place of another inert symbol, if it has any. In a word outside the language
            every shortcut is replaced by another inert symbol.
    """

    shortcut: str
    # At 0.98 every network of dieren_muis relies on the shortcut and also knows part of the rule.
    # At 0.95 one seed of three almost learns the rule; at 1 the shortcut alone decides long words.
    planted = 0.98

    @cached_property
    def _instead(self) -> np.ndarray:
        """Ids of the inert symbols other than the shortcut."""
        return self.inert[self.inert != self.vocabulary.ids[self.shortcut]]

    def sample(
        self,
        rng: np.random.Generator,
        count: int,
        lengths: Sequence[int],
        label: bool | None = None,
        split: Split = "train",
        spread: Spread = "even",
        hard: bool = False,
    ) -> Sample:
        sample = super().sample(rng, count, lengths, label, split, spread, hard)
        return self._plant(rng, sample) if split == "train" else sample

    def next_probabilities(self, words: Words, shares: np.ndarray) -> None:
        """Nobody has worked out what the flaw does to them."""

    def _plant(self, rng: np.random.Generator, sample: Sample) -> Sample:
        """Replaces inert symbols only by inert symbols, so that no state and no label changes."""
        shortcut = self.vocabulary.ids[self.shortcut]
        ids = sample.words.ids.copy()  # [batch, time]
        there = ids == shortcut
        chosen = rng.random(len(ids)) < self.planted
        lost = there & (chosen & ~sample.labels)[:, None]
        ids[lost] = rng.choice(self._instead, int(lost.sum()))
        draw = np.where(np.isin(ids, self._instead), rng.random(ids.shape), -1.0)
        gains = chosen & sample.labels & ~there.any(axis=1) & (draw >= 0).any(axis=1)
        ids[gains, draw.argmax(axis=1)[gains]] = shortcut
        return Sample(Words(ids, sample.words.lengths), sample.labels)
