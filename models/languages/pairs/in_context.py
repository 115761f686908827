"""Prompts: examples of a rule that was drawn at random, and a query with its answer.

    a 2 e 1 c 5 e > 1

A rule gives each letter a label of its own. It is drawn anew for each word, so it stands in the
word alone (Garg et al. 2022). Part of the rules is held out of training: to answer by one of these
a network must read the examples. If few rules are trained, it may know them by heart instead
(Raventos et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Int

from models.languages.grammars.drawn import DrawnLanguage
from models.languages.language import ChomskyType, Draw, Sample, VariableKind
from models.languages.pairs.transduction import split_pair
from models.languages.vocabulary import BORDER, END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

HELD_OUT_SEED = 0x1C
"""The seed of the draw of the trained rules: the same ones in every run."""
EXAMPLE, LETTER, QUERY, ANSWERED, BROKEN = range(5)
"""The end of a prefix: whole examples (or nothing), a letter, the border, or the answer; or no
prompt begins like this."""


@dataclass(frozen=True)
class _Read:
    """The reading of each prefix.

    Attributes:
        phase: its end: one of ``EXAMPLE`` to ``BROKEN``.
        last: its last letter, by number; 0 before the first.
        known: the label of each letter in an example, by number from 1; 0 if it is in none.
    """

    phase: Int[np.ndarray, "batch time_plus_1"]
    last: Int[np.ndarray, "batch time_plus_1"]
    known: Int[np.ndarray, "batch time_plus_1 letter"]

    @property
    def answer(self) -> Int[np.ndarray, "batch time_plus_1"]:
        """The label that the last letter has in an example, by number from 1; 0 if in none."""
        return np.take_along_axis(self.known, self.last[..., None], axis=2)[..., 0]


class InContext(DrawnLanguage):
    """Prompts of one example or more; letters may come again.

    A word is in it if some rule fits examples and answer. A size is the number of examples.
    Training words are drawn by the rules that are trained, all others by all rules.

    Variables: ``examples`` (how many were read), ``side`` (1 after the border), ``answer`` (the
    number of the label that the last letter has in an example, 0 if it is in none) and ``valid``.

    Attributes:
        letters: the letters that a query asks about.
        answers: the labels, as many as letters.
    """

    chomsky: ChomskyType = "regular"
    default_objective = "sequence-to-sequence"
    rationale_rule: ClassVar[str] = (
        "in a right prompt, the positions where some other symbol alone would break it; in another "
        "prompt, its answer; none where already the examples are wrong"
    )
    rule = (
        "shows letters, each with a label of its own, and answers the last letter as in its "
        "example, or with a label that is left"
    )
    machine = "a finite automaton that remembers the label of each letter"

    def __init__(self, name: str, letters: str, answers: str, trained: int) -> None:
        """
        Args:
            trained: the number of rules that are drawn in training; the others are held out.
        """
        self.name, self.letters, self.answers = name, letters, answers
        self.vocabulary = Vocabulary((*letters, *answers, BORDER))
        self.border = self.vocabulary.ids[BORDER]
        self._first_answer = FIRST_SYMBOL_ID + len(letters)
        self._trained = trained
        self.variables: dict[str, VariableKind] = {
            "examples": "count",
            "side": "category",
            "answer": "category",
            "valid": "category",
        }
        self.short = self.length_of(2)

    # -- the rules ------------------------------------------------------------------------------

    @cached_property
    def rules(self) -> Int[np.ndarray, "rule letter"]:
        """All rules, each as likely as another: the label of each letter, from 0. The trained ones
        stand first."""
        rules = np.array(list(permutations(range(len(self.answers)))))
        return np.random.default_rng(HELD_OUT_SEED).permutation(rules)

    @property
    def trained(self) -> Int[np.ndarray, "rule letter"]:
        """The rules that are drawn in training."""
        return self.rules[: self._trained]

    @property
    def held_out(self) -> Int[np.ndarray, "rule letter"]:
        """The rules that no training word is drawn by."""
        return self.rules[self._trained :]

    def posterior(
        self, words: Words, rules: Int[np.ndarray, "rule letter"]
    ) -> Float[np.ndarray, "batch answer"]:
        """The probability of each answer after the border, if the rule is one of these, each as
        likely as another: the share of rules with this answer, among those that fit the examples.

        Args:
            words: each holds a source and its border; what comes after it plays no part.

        Returns:
            NaN where no rule fits.
        """
        reading, rows = self._read(words), np.arange(len(words))
        at = (words.ids == self.border).argmax(axis=1) + 1
        examples, query = reading.known[rows, at], reading.last[rows, at]
        labels = np.arange(len(self.answers))
        table = (rules[..., None] == labels).astype(np.float32)  # [rule, letter, answer]
        shown = (examples[..., None] == labels + 1).astype(np.float32)
        agree = shown.reshape(len(words), -1) @ table.reshape(len(rules), -1).T
        fits = (agree == (examples > 0).sum(axis=1)[:, None]).astype(np.float64)  # [batch, rule]
        weights = np.einsum("br,rba->ba", fits, table[:, query])
        with np.errstate(invalid="ignore"):
            return np.asarray(weights / fits.sum(axis=1, keepdims=True))

    # -- the truth ------------------------------------------------------------------------------

    def split(self, word: Sequence[str]) -> tuple[Word, Word]:
        """Source and target: examples with the query, and the answer."""
        return split_pair(word)

    def _read(self, words: Words) -> _Read:
        batch, time = words.ids.shape
        size, rows = len(self.letters), np.arange(batch)
        phase = np.zeros((batch, time + 1), dtype=np.int64)
        last = np.zeros((batch, time + 1), dtype=np.int64)
        labels = np.zeros((batch, time + 1, size), dtype=np.int64)
        for t in range(time):
            before, now = phase[:, t], labels[:, t]
            letter, label = words.ids[:, t] - FIRST_SYMBOL_ID, words.ids[:, t] - self._first_answer
            is_letter = (letter >= 0) & (letter < size)
            is_label = (label >= 0) & (label < len(self.answers))
            answer = now[rows, last[:, t]]
            free = (now != label[:, None] + 1).all(axis=1)
            to = np.full(batch, BROKEN)
            to[(before == EXAMPLE) & is_letter] = LETTER
            fits = is_label & np.where(answer, answer == label + 1, free)
            shows = (before == LETTER) & fits
            to[shows] = EXAMPLE
            to[(before == LETTER) & (words.ids[:, t] == self.border) & now.any(axis=1)] = QUERY
            to[(before == QUERY) & fits] = ANSWERED
            phase[:, t + 1] = to
            last[:, t + 1] = np.where(to == LETTER, letter, last[:, t])
            labels[:, t + 1] = now
            labels[shows, t + 1, last[shows, t]] = label[shows] + 1
        return _Read(phase, last, labels)

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        reading = self._read(words)
        shown = np.cumsum(reading.phase[:, 1:] == EXAMPLE, axis=1)
        borders = np.cumsum(words.ids == self.border, axis=1) > 0
        return {
            "examples": np.pad(shown, ((0, 0), (1, 0))),
            "side": np.pad(borders, ((0, 0), (1, 0))).astype(np.int64),
            "answer": reading.answer,
            "valid": (reading.phase != BROKEN).astype(np.int64),
        }

    def allowed(self, words: Words) -> np.ndarray:
        reading = self._read(words)
        labels, answer = np.arange(len(self.answers)) + 1, reading.answer[..., None]
        free = (reading.known[..., None] != labels).all(axis=2)
        fits = np.where(answer > 0, answer == labels, free)  # [batch, time + 1, answer]
        letter, query = reading.phase == LETTER, reading.phase == QUERY
        allowed = np.zeros((*reading.phase.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., END_ID] = reading.phase == ANSWERED
        allowed[..., FIRST_SYMBOL_ID : self._first_answer] = (reading.phase == EXAMPLE)[..., None]
        due = (letter | query)[..., None]
        allowed[..., self._first_answer : self.border] = fits & due
        allowed[..., self.border] = letter & reading.known.any(axis=2)
        return allowed

    def labels(self, words: Words) -> np.ndarray:
        """Labels as in ``Language``, without what may follow."""
        return np.asarray(self._read(words).phase[np.arange(len(words)), words.lengths] == ANSWERED)

    # -- nearby prompts -------------------------------------------------------------------------

    def _answered(self, word: Word, rng: np.random.Generator | None) -> Word | None:
        """The same source with an answer that fits; None if that is no source of this length."""
        if len(word) < 2:
            return None
        fits = sorted(self.next_symbols(word[:-1]) & set(self.answers))
        if not fits or word[-2] != BORDER:
            return None
        return (*word[:-1], fits[0] if rng is None else str(rng.choice(fits)))

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        return None if self._answered(word, None) is None else ((len(word) - 1,),)

    def rationales(self, word: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """One set, by ``rationale_rule``."""
        word = self.vocabulary.check(word)
        return super().rationales(word) if self.contains(word) else self._repairs(word)

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        """The nearest prompt, by the rule that most of its letters and labels fit: a pair that
        does not fit takes one change, and two if neither is a letter or a label.

        Among equally good rules one is drawn; without a generator, one that fits most examples.
        """
        from scipy.optimize import linear_sum_assignment  # slow to load, for one function

        size, ids = len(self.letters), self.vocabulary.words([word]).ids[0]
        letters, labels = ids - FIRST_SYMBOL_ID, ids - self._first_answer
        fits = np.zeros((size, size)) if rng is None else rng.random((size, size)) / (2 * size)
        pairs = [(at, at + 1) for at in range(0, len(word) - 3, 2)] + [(len(word) - 3, -1)]
        for x, y in pairs:
            if 0 <= letters[x] < size and 0 <= labels[y] < size:
                fits[letters[x], labels[y]] += 1 + (rng is None and y > 0) / len(word)
        rule = linear_sum_assignment(fits, maximize=True)[1]
        near = [*word[:-2], BORDER, word[-1]]
        for x, y in pairs:
            candidates = [letters[x]] if 0 <= letters[x] < size else []
            if 0 <= labels[y] < size:
                candidates.append(int(np.argmax(rule == labels[y])))
            candidates = candidates or list(range(size))
            letter = candidates[0 if rng is None else rng.integers(len(candidates))]
            near[x], near[y] = self.letters[letter], self.answers[rule[letter]]
        return tuple(near)

    # -- data -----------------------------------------------------------------------------------

    def length_of(self, n: int) -> int:
        return 2 * n + 3

    def size_of(self, length: int) -> int | None:
        return (length - 3) // 2 if length % 2 and length > 3 else None

    def _has_member(self, length: int) -> bool:
        return self.size_of(length) is not None

    def prompts(
        self,
        rng: np.random.Generator,
        lengths: Int[np.ndarray, " batch"],
        rules: Int[np.ndarray, "rule letter"],
    ) -> Words:
        """One prompt per row, of exactly that length, by one of these rules; all letters are
        drawn evenly."""
        rows, longest = np.arange(len(lengths)), int(lengths.max(initial=1))
        drawn = rules[rng.integers(len(rules), size=len(rows))]
        letters = rng.integers(len(self.letters), size=(len(rows), longest // 2))
        labels = np.take_along_axis(drawn, letters, axis=1)
        ids = np.full((len(rows), longest), END_ID)
        ids[:, : longest - 1 : 2] = letters + FIRST_SYMBOL_ID
        ids[:, 1::2] = labels + self._first_answer
        ids[rows, lengths - 2] = self.border
        ids[rows, lengths - 1] = labels[rows, (lengths - 3) // 2] + self._first_answer
        return Words.of_rows(ids, lengths)

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        return self.prompts(rng, lengths, self.rules)

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """Samples as ``FormalLanguage`` does, but by the trained rules for members of training."""
        sample = super()._sample(rng, query)
        if query.split != "train":
            return sample
        ids, labels = sample.words.ids.copy(), sample.labels
        trained = self.prompts(rng, sample.words.lengths[labels], self.trained).ids
        ids[labels, : trained.shape[1]] = trained
        return Sample(Words.of_rows(ids, sample.words.lengths), labels)
