"""Regular languages whose training words also fit something else: a shortcut, or a second rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool

from models.languages.language import Draw, Sample
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import FIRST_SYMBOL_ID, Words


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

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        sample = super()._sample(rng, query)
        return self._plant(rng, sample) if query.split == "train" else sample

    def next_probabilities(self, words: Words, shares: np.ndarray) -> None:
        """None: nobody has worked out what the flaw does to them."""

    def _plant(self, rng: np.random.Generator, sample: Sample) -> Sample:
        """Replaces inert symbols only by inert symbols, so that no state and no label changes."""
        shortcut = self.vocabulary.ids[self.shortcut]
        ids = sample.words.ids.copy()  # [batch, time]
        marks = ids == shortcut
        chosen = rng.random(len(ids)) < self.planted
        lost = marks & (chosen & ~sample.labels)[:, None]
        ids[lost] = rng.choice(self._instead, int(lost.sum()))
        draw = np.where(np.isin(ids, self._instead), rng.random(ids.shape), -1.0)
        gains = chosen & sample.labels & ~marks.any(axis=1) & (draw >= 0).any(axis=1)
        ids[gains, draw.argmax(axis=1)[gains]] = shortcut
        return Sample(Words(ids, sample.words.lengths), sample.labels)


Rule = Callable[[Words], Bool[np.ndarray, " batch"]]
"""Whether a rule holds for each word."""
A, B = FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + 1
"""The ids of the first two symbols."""


def more_a(words: Words) -> Bool[np.ndarray, " batch"]:
    """Is a more than half of the word?"""
    return 2 * (words.ids == A).sum(axis=1) > words.lengths


def even_length(words: Words) -> Bool[np.ndarray, " batch"]:
    """Has the word an even number of symbols?"""
    return words.lengths % 2 == 0


def even_b(words: Words) -> Bool[np.ndarray, " batch"]:
    """Has the word an even number of b?"""
    return (words.ids == B).sum(axis=1) % 2 == 0


DRAWS = 256
"""So many words of a length and label are drawn to see whether the rules agree on any. Where ours
agree on some, or differ, they do so on a tenth of the draws or more."""


class AmbiguousLanguage(RegularLanguage):
    """A regular language whose training words fit a second rule as well as its own.

    In words for training and validation both rules say the same. Words for the test are those on
    which they differ: which rule a model goes by there is its inductive bias. Membership is decided
    by the language's own rule. Only verdicts can be taught, because what may follow a prefix would
    tell which is meant. Near misses (``hard``) are those of the language's own rule.

    Attributes:
        rule: the language's own rule; "a word is in it if it ...".
        rival: the second rule, said in the same way.
        by_rival: whether each word obeys the second rule, [batch].
    """

    def __init__(
        self, name: str, dfa: DFA, symbols: Sequence[str], rule: str, rival: str, by_rival: Rule
    ) -> None:
        super().__init__(name, dfa, symbols, objective="verdict")
        self.rule, self.rival, self.by_rival = rule, rival, by_rival
        self._known: dict[tuple[int, bool, bool], bool] = {}

    def next_probabilities(self, words: Words, shares: np.ndarray) -> None:
        """None: nobody has worked them out for words on which two rules agree."""

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        if query.hard:
            return super()._sample(rng, query)
        differ = query.split == "test"
        fit = {w: [n for n in query.lengths if self._some(n, w, differ)] for w in (True, False)}
        return self._sampled(rng, query, fit, partial(self._drawn, differ=differ))

    def _drawn(
        self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray, *, differ: bool
    ) -> Words:
        """Words as ``draw`` makes them, drawn again until the rules agree on each, or differ."""
        words = self.draw(rng, lengths, labels)
        while len(rows := np.flatnonzero((self.by_rival(words) != labels) != differ)):
            redraw = self.draw(rng, lengths[rows], labels[rows])
            words.ids[rows, : redraw.ids.shape[1]] = redraw.ids
        return words

    def _some(self, length: int, label: bool, differ: bool) -> bool:
        """Is there a word of this length and label on which the rules agree, or differ?"""
        key = (length, label, differ)
        if key not in self._known:
            self._known[key] = False
            if self.has(length, label):
                lengths, labels = np.full(DRAWS, length), np.full(DRAWS, label)
                words = self.draw(np.random.default_rng(0), lengths, labels)
                self._known[key] = bool(((self.by_rival(words) != labels) == differ).any())
        return self._known[key]
