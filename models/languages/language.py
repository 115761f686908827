"""The contract of a language whose truth is known.

A language answers for itself: which words are in it, what may follow a prefix, which hidden
variables a reader must keep, which nearby word has the opposite membership, and which positions
decide. Subclasses give two vectorised functions, ``trace`` and ``allowed``. The answers for a
single word are read off these two, so that there is one definition of the truth.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import ClassVar, Literal, get_args

import numpy as np
from automata.fa.dfa import DFA
from jaxtyping import Bool, Float, Int

from models.languages.repairs import MOST_REPAIRS
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

ChomskyType = Literal[
    "finite",
    "regular",
    "context-free",
    "mildly context-sensitive",
    "context-sensitive",
    "recursively enumerable",
    "finite sample",
]
VariableKind = Literal["count", "category"]
Split = Literal["train", "validation", "test"]
Spread = Literal["even", "log"]
"""The draw of lengths: each length equally often ("even"), or each order of magnitude equally
often ("log", log-uniform)."""


@dataclass(frozen=True)
class Sample:
    """Words with their membership: ``labels[i]`` is True where ``words[i]`` is in the language."""

    words: Words
    labels: Bool[np.ndarray, " batch"]

    def __getitem__(self, rows: np.ndarray | slice) -> Sample:
        return Sample(self.words[rows], self.labels[rows])

    @staticmethod
    def concatenate(first: Sample, second: Sample) -> Sample:
        """The words of both."""
        words = Words.concatenate(first.words, second.words)
        return Sample(words, np.concatenate([first.labels, second.labels]))


@dataclass(frozen=True)
class Draw:
    """A request to ``Language.sample``, which says what each field means."""

    count: int
    lengths: Sequence[int]
    label: bool | None
    split: Split
    spread: Spread
    hard: bool


class Language(ABC):
    """A formal language, or a corpus of labelled lines, that can answer for itself.

    Attributes:
        name: the registry name.
        vocabulary: its symbols and token ids.
        chomsky: its type in the Chomsky hierarchy ("finite sample" for a corpus).
        variables: the hidden variables that ``trace`` returns. Each is a "count", or a "category",
            whose numbers only name its values.
        default_objective: what a teacher of this language can honestly give, by its name in
            ``models.objectives``: "next-symbols" at every prefix, or one "verdict" per word.
        rationale_rule: the rule by which ``rationales`` chooses positions, in words.
        shortcut: a symbol that says nothing about membership, but goes with the label in the
            training lines of a variant of this language; None if there is no such variant.
        short: words up to this size are short enough for an example.
        knows_others: whether it knows words that are not in it. Of lines without labels nobody
            knows which other line is right.
    """

    name: str
    vocabulary: Vocabulary
    chomsky: ChomskyType
    variables: dict[str, VariableKind]
    default_objective: str = "next-symbols"
    rationale_rule: ClassVar[str]
    shortcut: str | None = None
    short: int = 10
    knows_others: bool = True

    # -- the truth, vectorised ------------------------------------------------------------------

    @property
    def main_variables(self) -> list[str]:
        """The hidden variables that a reader must keep, the one that says most first. "valid" and
        "accepting" are none of them: they are the answer itself."""
        names = [name for name in self.variables if name not in ("valid", "accepting")]
        counts = [name for name in names if self.variables[name] == "count"]
        return sorted(names, key=lambda name: ("-" not in name, name not in counts))

    @abstractmethod
    def trace(self, words: Words) -> dict[str, Int[np.ndarray, "batch time_plus_1"]]:
        """The hidden variables after every prefix; column 0 is the empty prefix.

        Columns past a word's length have no meaning, here and in ``allowed``.
        """

    @abstractmethod
    def allowed(self, words: Words) -> Bool[np.ndarray, "batch time_plus_1 vocabulary"]:
        """The tokens, END among them, that may follow each prefix; all False after a violation."""

    def labels(self, words: Words) -> Bool[np.ndarray, " batch"]:
        """Whether each word is in the language, that is, whether END may follow it."""
        return self.allowed(words)[np.arange(len(words)), words.lengths, END_ID]

    # -- the truth of one word ------------------------------------------------------------------

    def contains(self, word: Sequence[str]) -> bool:
        """Is the word in the language? Raises UserError for an unknown symbol."""
        return bool(self.labels(self.vocabulary.words([word]))[0])

    def next_symbols(self, prefix: Sequence[str]) -> frozenset[str]:
        """The symbols that may follow the prefix, END among them; empty after a violation."""
        row = self.allowed(self.vocabulary.words([prefix]))[0, -1]
        return frozenset(self.vocabulary.decode(np.flatnonzero(row)))

    def state(self, prefix: Sequence[str]) -> dict[str, int]:
        """The hidden variables after the prefix, by name."""
        traced = self.trace(self.vocabulary.words([prefix]))
        return {name: int(values[0, -1]) for name, values in traced.items()}

    def counterfactual(self, word: Sequence[str], rng: np.random.Generator | None = None) -> Word:
        """The nearest word of the same length whose membership is the opposite.

        Nearest means with the fewest substitutions. A language of pairs tries sources out, the
        nearest first, and stops where more than ``transduction.MOST_SOURCES`` begin as near: of a
        word that is further from all pairs it gives a near one, which may not be the nearest.

        Args:
            rng: draws among equally near words; without it the choice is always the same.

        Raises:
            LookupError: no word of this length has the opposite membership.
        """
        return self._counterfactual(self.vocabulary.check(word), rng)

    @abstractmethod
    def _counterfactual(self, word: Word, rng: np.random.Generator | None) -> Word: ...

    def rationales(self, word: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """The sets of positions that decide, from 0, by ``rationale_rule``.

        Each set is a right answer by itself. None if the rule gives none.
        """
        return None

    def rationale(self, word: Sequence[str]) -> tuple[int, ...] | None:
        """The positions that are in any of the ``rationales``; None if there are none."""
        sets = self.rationales(word)
        return None if sets is None else tuple(sorted({i for places in sets for i in places}))

    def substitution_effects(self, word: Sequence[str]) -> Float[np.ndarray, " time"] | None:
        """The share of the other symbols at each position that turn the membership around.

        The other symbols of the word stay. None if the membership of other words is not known.
        """
        return None

    def tree_distances(self, word: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
        """Edges between each two symbols in the tree of a word, [pos, pos], and between each and
        the root, [pos]. None where no tree is known."""
        return None

    # -- data -----------------------------------------------------------------------------------

    def lengths(self, max_n: int) -> range:
        """The word lengths of a window that reaches to size ``max_n``."""
        return range(1, self.length_of(max_n) + 1)

    def length_of(self, n: int) -> int:
        """The length of a word of size n: n itself, unless the language counts in blocks."""
        return n

    def size_of(self, length: int) -> int | None:
        """The inverse of ``length_of``; None if no size has this length."""
        return length

    @abstractmethod
    def positive_lengths(self, lengths: Sequence[int]) -> list[int]:
        """The given lengths at which the language has a word."""

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
        """``count`` words of the given lengths, drawn with replacement.

        Args:
            rng: the source of all randomness.
            lengths: the lengths that may be drawn.
            label: True draws only members, False only words outside the language ("others"), None
                both.
            split: the side of a corpus; a language with a grammar draws fresh words for each split.
            spread: the draw of lengths; a corpus ignores it and draws its lines evenly.
            hard: all others are near misses, of lengths that have near misses; a corpus ignores it.

        Raises:
            LookupError: no word of any given length has the wanted membership.
        """
        return self._sample(rng, Draw(count, lengths, label, split, spread, hard))

    @abstractmethod
    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample: ...

    def example(self) -> Word:
        """A short member of the language, always the same."""
        positives = self.positive_lengths(self.lengths(self.short))
        at = min(2, len(positives) - 1)
        for split, length in product(get_args(Split), positives[at:] + positives[:at]):
            with suppress(LookupError):  # a small corpus may have this length on another side
                words = self.sample(np.random.default_rng(0), 1, [length], True, split).words
                return self.vocabulary.decode(words.ids[0, :length])
        raise LookupError(f"{self.name} has no word")


class FormalLanguage(Language):
    """A language with a grammar: words of any length and membership can be made.

    Attributes:
        rule: completes "a word is in it if it ..."; None where its automaton says it, or it has no
            short words.
        dfa: the smallest automaton of a regular language; None for others, and for a grammar.
    """

    rule: str | None = None
    dfa: DFA | None = None

    rationale_rule: ClassVar[str] = (
        "in a word of the language, the positions where some other symbol alone would break it; in "
        "another word, the positions of a repair: as few substitutions as possible that make it a "
        "word of the language, where every such set of positions is right; none where the language "
        f"has no word of this length, or where more than {MOST_REPAIRS:,} sets are right"
    )

    @property
    @abstractmethod
    def machine(self) -> str:
        """The weakest machine that reads it, in a few words."""

    @property
    def productions(self) -> tuple[str, ...]:
        """The rules that make its words from S, such as "S -> 'a' S 'b'"; none are known where it
        is empty. A rule may rewrite several parts in a row; what is in quotes is a symbol of the
        language, and a word is made when nothing else is left."""
        return ()

    def stacks(self, word: Sequence[str]) -> list[str] | None:
        """The contents of a stack before the word and after each of its symbols, top first; None
        where the machine needs something else than a stack, or the word is not in the language."""
        return None

    def rationales(self, word: Sequence[str]) -> tuple[tuple[int, ...], ...] | None:
        """One set for a member; for another word all repairs with the fewest substitutions.

        These repairs are the contrastive explanations of the fewest symbols (Ignatiev, Narodytska,
        Asher and Marques-Silva 2020). Larger sets, of which no part is a repair, are left out.
        """
        word = self.vocabulary.check(word)
        if self.contains(word):
            return (tuple(np.flatnonzero(self.substitution_effects(word)).tolist()),)
        return self._repairs(word) if self.has(len(word), True) else None

    @abstractmethod
    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        """The sets of positions at which the fewest substitutions make a word a member.

        Args:
            word: no member; members of its length exist.

        Returns:
            None if there are more than ``MOST_REPAIRS`` sets.
        """

    def substitution_effects(self, word: Sequence[str]) -> Float[np.ndarray, " time"]:
        """One vectorised question about all words that differ from this one in one symbol."""
        ids = self.vocabulary.words([word]).ids[0]
        size, rest = len(ids), len(self.vocabulary.symbols) - 1
        if not rest:
            return np.zeros(size)
        symbols = np.arange(FIRST_SYMBOL_ID, FIRST_SYMBOL_ID + rest + 1)
        changed = np.broadcast_to(ids, (size, rest + 1, size)).copy()
        changed[np.arange(size), :, np.arange(size)] = symbols
        count = size * (rest + 1)
        words = Words(changed.reshape(count, size), np.full(count, size))
        turned = self.labels(words).reshape(size, rest + 1) != self.contains(word)
        return turned.sum(axis=1) / rest

    def near_miss_example(self) -> Word | None:
        """A short word just outside the language, always the same.

        None if every short word is in the language.
        """
        for length in self.positive_lengths(self.lengths(self.short)):
            with suppress(LookupError):
                words = self.sample(np.random.default_rng(0), 1, [length], label=True).words
                return self.counterfactual(self.vocabulary.decode(words.ids[0]))
        return None

    def positive_lengths(self, lengths: Sequence[int]) -> list[int]:
        return [length for length in lengths if self.has(length, True)]

    @abstractmethod
    def has(self, length: int, label: bool) -> bool:
        """Is there a word of this length with this membership?"""

    def has_near_miss(self, length: int) -> bool:
        """Are there a member and a near miss of this length?"""
        return self.has(length, True) and self.has(length, False)

    @abstractmethod
    def draw(self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray) -> Words:
        """One word per row, of exactly that length and membership.

        The caller makes sure that the language has such words (``has``).
        """

    @abstractmethod
    def near_misses(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """One near miss per row: a word outside the language that is almost a member.

        It is a member with one substitution. Where blocks are counted, it can also be a member with
        one symbol moved from one block to another; where brackets of several kinds nest, a member
        in which two of them cross.

        Args:
            lengths: the length of each word; ``has_near_miss`` holds for all of them.
        """

    def _sample(self, rng: np.random.Generator, query: Draw) -> Sample:
        """A coin decides membership, then a length that has it is drawn.

        Without ``hard``, only part of the others are near misses, and only where there are any.
        """
        near = self.has_near_miss if query.hard else partial(self.has, label=False)
        members = [length for length in query.lengths if self.has(length, True)]
        others = [length for length in query.lengths if near(length)]
        draw = self._draw_hard if query.hard else self.draw
        return self._sampled(rng, query, {True: members, False: others}, draw)

    def _sampled(
        self,
        rng: np.random.Generator,
        query: Draw,
        lengths: Mapping[bool, Sequence[int]],
        draw: Callable[[np.random.Generator, np.ndarray, np.ndarray], Words],
    ) -> Sample:
        """``_sample`` with the lengths that may be drawn by label, and with a function that draws
        a word per length and label."""
        count = query.count
        options = {label: np.array(values, np.int64) for label, values in lengths.items()}
        possible = [w for w in (True, False) if len(options[w]) and query.label in (None, w)]
        if not possible:
            raise LookupError(f"{self.name} has no such word of the lengths asked for")
        mixed = len(possible) == 2
        labels = rng.random(count) < 0.5 if mixed else np.full(count, possible[0], dtype=bool)
        drawn = np.empty(count, dtype=np.int64)
        for member in possible:
            rows = labels == member
            share = _shares(options[member], query.spread)
            drawn[rows] = rng.choice(options[member], int(rows.sum()), p=share)
        return Sample(draw(rng, drawn, labels), labels)

    # -- how likely ----------------------------------------------------------------------------

    def length_shares(
        self, lengths: Sequence[int], spread: Spread = "even"
    ) -> Float[np.ndarray, " longest_plus_1"]:
        """Probabilities of the lengths of a member from ``sample``, from 0 up to the longest."""
        positives = np.array(self.positive_lengths(lengths), np.int64)
        shares = np.zeros(max(lengths, default=0) + 1)
        shares[positives] = _shares(positives, spread)
        return shares

    def next_probabilities(
        self, words: Words, shares: Float[np.ndarray, " longest_plus_1"]
    ) -> Float[np.ndarray, "batch time_plus_1 vocabulary"] | None:
        """Probabilities of the next token, END among them, in a member that is drawn.

        Its length is drawn by ``shares`` (``length_shares``), then the member by ``draw``.

        Returns:
            All 0 after a prefix that no such member begins with. Columns past a word's length have
            no meaning. None where it is not known how the language draws.
        """
        weights = self._continued(words, shares)
        if weights is None:
            return None
        total = weights.sum(axis=2, keepdims=True)
        return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)

    def _continued(self, words: Words, shares: np.ndarray) -> np.ndarray | None:
        """Weights of the next tokens: ``next_probabilities`` in a unit of each position's own.

        Here all members are gone through, one by one.
        """
        lengths = np.flatnonzero(shares)
        listed = [self.members_of(int(length)) for length in lengths]
        rows = [ids for ids in listed if ids is not None]
        if len(rows) < len(listed):
            return None
        weights = np.zeros((len(words), words.ids.shape[1] + 1, len(self.vocabulary)))
        for length, members in zip(lengths.tolist(), rows, strict=True):
            tokens = np.pad(members, ((0, 0), (0, 1)), constant_values=END_ID)
            time = min(length, words.ids.shape[1])
            match = members[None, :, :time] == words.ids[:, None, :time]
            match &= words.mask[:, None, :time]
            begins = np.pad(
                np.logical_and.accumulate(match, axis=2),
                ((0, 0), (0, 0), (1, 0)),
                constant_values=True,
            )
            share = shares[length] / len(members)
            row, member, at = np.nonzero(begins)
            np.add.at(weights, (row, at, tokens[member, at]), share)
        return weights

    def members_of(self, length: int) -> Int[np.ndarray, "members length"] | None:
        """All members of a length as token ids, each drawn equally often; None where they are too
        many to be listed."""
        return None

    def _draw_hard(
        self, rng: np.random.Generator, lengths: np.ndarray, labels: np.ndarray
    ) -> Words:
        """Members and near misses, row by row as the labels say."""
        members = self.draw(rng, lengths[labels], labels[labels])
        words = Words.concatenate(members, self.near_misses(rng, lengths[~labels]))
        rows = np.argsort(~labels, kind="stable")  # where each of ``words`` belongs: members first
        return words[np.argsort(rows)]


def _shares(lengths: Int[np.ndarray, " some"], spread: Spread) -> Float[np.ndarray, " some"]:
    share = 1.0 / lengths if spread == "log" else np.ones(len(lengths))
    return np.asarray(share / share.sum())
