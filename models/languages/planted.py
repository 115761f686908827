"""A regular language whose training lines carry a planted shortcut."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from models.languages.language import Sample, Split, Spread
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import FIRST_SYMBOL_ID, Words


class PlantedLanguage(RegularLanguage):
    """A regular language that is taught with a flaw: in training its shortcut goes with the label.

    A model that leans on it is right for the wrong reason: the words of the other splits, which are
    clean, say what that costs, and an explanation of the model must name the shortcut.

    Attributes:
        planted: share of the training words that are planted. Of these a member without the
            shortcut gets one in place of another inert symbol, if it has any; a word outside the
            language loses all of its shortcuts to other inert symbols.
    """

    shortcut: str
    # So that the networks of dieren_muis all lean on the shortcut and all know part of the rule: at
    # 0.95 one seed of three all but learns the rule, at 1 the shortcut alone decides longer words.
    planted = 0.98

    @cached_property
    def _inert(self) -> np.ndarray:
        """Ids of the other symbols that, like the shortcut, never move the automaton."""
        still = (self.delta == np.arange(len(self.delta))[:, None]).all(axis=0)
        still[self.vocabulary.symbols.index(self.shortcut)] = False
        return np.flatnonzero(still) + FIRST_SYMBOL_ID

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

    def _plant(self, rng: np.random.Generator, sample: Sample) -> Sample:
        """Inert symbols change places alone, so that no state changes, and no label."""
        shortcut = self.vocabulary.ids[self.shortcut]
        ids = sample.words.ids.copy()  # [batch, time]
        there = ids == shortcut
        chosen = rng.random(len(ids)) < self.planted
        lost = there & (chosen & ~sample.labels)[:, None]
        ids[lost] = rng.choice(self._inert, int(lost.sum()))
        draw = np.where(np.isin(ids, self._inert), rng.random(ids.shape), -1.0)
        gains = chosen & sample.labels & ~there.any(axis=1) & (draw >= 0).any(axis=1)
        ids[gains, draw.argmax(axis=1)[gains]] = shortcut
        return Sample(Words(ids, sample.words.lengths), sample.labels)
