"""The truth about a planted network, question by question. No lens may import this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from analyses.scoring.paper import LineWords, PartWords, Question, VariableWords, Words
from interp.circuits.graph import Graph
from interp.explanations.games import Game, exact_shapley
from models.languages.grammars.bounded import BOUNDED, Bounded
from models.languages.vocabulary import BOS_ID, END_ID
from models.plants.plant import Plant
from models.plants.program import AGAIN, Made, Program, Values, Variable

LENGTH = 6
"""Symbols of the words in which all sets of positions, and all words, are looked at."""
WORDS, PAIRS, EXCHANGES, VARIABLES = 16, 60, 32, 3
"""Words of "positions"; pairs of "parts" and "edges"; exchanges that turn the verdict, and as many
that do not; the most variables of a network."""

Word = tuple[str, ...]


@dataclass(frozen=True)
class _Exchanges:
    """Words that get a variable's values from other words, and the right verdicts then."""

    base: Int[Tensor, "pair pos"]
    source: Int[Tensor, "pair pos"]
    accepted: Bool[np.ndarray, " pair"]


@dataclass(frozen=True)
class Key:
    """The right answer to one question about one network.

    Attributes:
        words: the words and facts that a lens gets.
        variable: the name of the variable; "" for other questions.
    """

    question: Question
    words: Words
    variable: str = field(default="", kw_only=True)

    @property
    def untrained(self) -> Words:
        """The words and facts that a lens gets beside the untrained network."""
        return self.words


@dataclass(frozen=True)
class PartKey(Key):
    """The right answer to "parts" or "edges".

    Attributes:
        inside: True for those that the plan has.
    """

    words: PartWords
    inside: Bool[np.ndarray, " item"]


@dataclass(frozen=True)
class PositionKey(Key):
    """The right answer to "positions".

    Attributes:
        inside: True for a relevant position: one in a minimal rationale. A rationale is a set of
            positions that decides: all words that agree with the word there have its verdict.
        shapley: the exact Shapley values of membership, where a hidden symbol may be any symbol.
    """

    inside: Bool[np.ndarray, "word time"]
    shapley: Float[np.ndarray, "word time"]


@dataclass(frozen=True)
class VariableKey(Key):
    """The right answer to "variable".

    Attributes:
        directions: an orthonormal basis of those in which the variable differs, in rows.
        sites: the hooks at which the variable is there, and is still read later.
        exchanges: the exchanges that score the answer.
    """

    words: VariableWords
    directions: Float[np.ndarray, "rank d_model"]
    sites: Sequence[str]
    exchanges: _Exchanges


@dataclass(frozen=True)
class RuleKey(Key):
    """The right answer to "rule": whether a word is in the language."""

    member: Callable[[Word], bool] = field(repr=False)


@dataclass(frozen=True)
class LineKey(Key):
    """The right answer to "lines".

    Attributes:
        start: the words beside the untrained network, which has no other checkpoint.
        margins: the log odds of the right verdict after trainings without some lines.
        kept: True for the lines that each of these trainings had.
    """

    words: LineWords
    start: LineWords
    margins: Float[np.ndarray, "training target"]
    kept: Bool[np.ndarray, "training line"]

    @property
    def untrained(self) -> Words:
        return self.start


def keys(made: Plant, questions: Sequence[Question]) -> list[Key]:
    """The questions that can be asked about a network, each with its answer."""
    drawn = _Drawn(made, np.random.default_rng([0x5C0, made.seed]))
    answers: list[Key] = []
    for question in questions:
        answers += getattr(drawn, question)()
    return answers


def _rationales(shares: Float[np.ndarray, "*symbols"], word: Sequence[int]) -> list[list[int]]:
    """The minimal sets of positions that decide the membership of a word.

    Args:
        shares: 1 for the members and 0 for the other words of this length, an axis per position.
    """
    size, sets = shares.ndim, list[list[int]]()
    for mask in sorted(product([False, True], repeat=size), key=sum):
        places = [i for i, keep in enumerate(mask) if keep]
        if any(set(smaller) <= set(places) for smaller in sets):
            continue
        rest = shares[tuple(s if keep else slice(None) for s, keep in zip(word, mask, strict=True))]
        if np.all(rest == shares[tuple(word)]):
            sets.append(places)
    return sets


def _relevant(
    shares: Float[np.ndarray, "*symbols"], word: Sequence[int]
) -> Bool[np.ndarray, " time"]:
    """A mask of the positions in a minimal rationale of a word; see ``_rationales``."""
    mask = np.zeros(len(word), dtype=bool)
    for places in _rationales(shares, word):
        mask[places] = True
    return mask


@dataclass
class _Drawn:
    """Words of a network, drawn from one generator."""

    made: Plant
    rng: np.random.Generator

    @property
    def program(self) -> Program:
        return self.made.program

    @property
    def of(self) -> Bounded:
        return BOUNDED[self.program.name]

    @property
    def all(self) -> list[Word]:
        return list(product(self.of.symbols, repeat=LENGTH))

    def tokens(self, words: Sequence[Word]) -> Int[Tensor, "word pos"]:
        ids = self.program.vocabulary.ids
        return torch.tensor([[BOS_ID, *(ids[symbol] for symbol in word)] for word in words])

    def told(self, words: Sequence[Word]) -> dict[str, Any]:
        """The fields of ``Words``."""
        at = 0 if self.program.ahead else LENGTH
        seed = int(self.rng.integers(2**31))
        about = {"symbols": tuple(self.of.symbols), "longest": self.of.longest, "seed": seed}
        return {"tokens": self.tokens(words), "token": END_ID, "at": at} | about

    def positions(self) -> list[Key]:
        words, of = self.all, self.of
        inside = np.array([of.member(word) for word in words], dtype=float)
        shares = inside.reshape((len(of.symbols),) * LENGTH)
        places = np.indices(shares.shape).reshape(LENGTH, -1).T
        pairs = list[tuple[int, np.ndarray]]()
        for side in (1.0, 0.0):
            some = self.rng.permutation(np.flatnonzero(inside == side))
            masks = ((int(i), _relevant(shares, places[i])) for i in some)
            pairs += islice((pair for pair in masks if 0 < pair[1].sum() < LENGTH), WORDS // 2)
        if not pairs:
            return []
        chosen = [i for i, _ in pairs]

        def membership(batch: np.ndarray) -> np.ndarray:
            return shares[tuple(batch.T)]

        shapley = [exact_shapley(Game(membership, places[i], places)) for i in chosen]
        which = np.array([mask for _, mask in pairs])
        paper = Words(**self.told([words[i] for i in chosen]))
        return [PositionKey("positions", paper, which, np.array(shapley))]

    def pairs(self) -> tuple[list[Word], list[Word]]:
        """Words of both verdicts in turn, each with a near word of the other verdict."""
        of, rng = self.of, self.rng
        sides = {side: [w for w in self.all if of.member(w) is side] for side in (True, False)}
        clean = [sides[i % 2 == 0][rng.integers(len(sides[i % 2 == 0]))] for i in range(PAIRS)]
        others = []
        for word in clean:
            other = sides[not of.member(word)]
            apart = np.array([sum(a != b for a, b in zip(word, o, strict=True)) for o in other])
            others.append(other[rng.choice(np.flatnonzero(apart <= apart.min() + 1))])
        return clean, others

    def parts(self) -> list[Key]:
        """The parts, less those that say the same of all words of a length: no pair shows them."""
        plan = self.made.plan
        telling = {sender for sender, _ in plan.edges}
        planned = {f"L{layer}H{head}" for layer, head in plan.heads}
        planned |= {f"L{layer} mlp" for layer in plan.mlps}
        parts = Graph.of(self.made.model).senders[1:]
        names = [name for name in parts if name in telling or name not in planned]
        return self._inside("parts", names, np.array([name in telling for name in names]))

    def edges(self) -> list[Key]:
        edges = Graph.of(self.made.model).edges
        inside = np.array([tuple(edge) in self.made.plan.edges for edge in edges])
        return self._inside("edges", edges, inside)

    def _inside(self, question: Question, names: Sequence[object], inside: np.ndarray) -> list[Key]:
        """The key of a ranking; none where all are in the plan: there is nothing to rank."""
        if inside.all():
            return []
        clean, others = self.pairs()
        fields = self.told(clean) | {"counterfactuals": self.tokens(others), question: tuple(names)}
        return [PartKey(question, PartWords(**fields), inside)]

    def variable(self) -> list[Key]:
        """Two copies of a variable are one: both are exchanged, and what differs with its values is
        the sum of what both write."""
        names = [v.name for v in self.program.variables if isinstance(v, Made)]
        names = [name for name in names if not name.endswith(AGAIN)]
        candidates = [name for name in names if name != self.program.verdict.name]
        answers: list[Key] = []
        for name in self.rng.permutation(candidates).tolist():
            if len(answers) == VARIABLES or (drawn := self._exchanges(name)) is None:
                continue
            fit, test = drawn
            words = [self.all[i] for i in self.rng.permutation(len(self.all))[:100]]
            values = np.array([self.program.trace(word)[name] for word in words])
            paper = VariableWords(
                **self.told(words),
                values=torch.tensor(values).float(),
                base=fit.base,
                source=fit.source,
                accepted=torch.tensor(fit.accepted),
                sites=self._stream(),
            )
            differs, there = self._differs(name, values), self._there(name)
            answers.append(VariableKey("variable", paper, differs, there, test, variable=name))
        return answers

    def _copies(self, name: str) -> list[Variable]:
        return [v for v in self.program.variables if v.name in (name, name + AGAIN)]

    def _differs(
        self, name: str, values: Float[np.ndarray, "word pos size"]
    ) -> Float[np.ndarray, "rank d_model"]:
        """The directions in which the stream differs with a variable's values."""
        copies = [self.made.directions[v.name].double().numpy() for v in self._copies(name)]
        rows = sum(copies, np.zeros_like(copies[0]))
        rows = rows[np.ptp(values.reshape(-1, values.shape[-1]), axis=0) > 0]
        return basis(rows - rows.mean(axis=0) if _one_hot(values) else rows)

    def _there(self, name: str) -> Sequence[str]:
        """The sites between the last part that makes a copy and the last that reads every copy."""
        places, copies = self.made.plan.places, self._copies(name)
        readers = [[places[v] for v in self.program.variables if c in v.reads] for c in copies]
        last = min(max(place.after for place in read) for read in readers)
        return self._stream()[max(places[copy].after for copy in copies) : last]

    def _stream(self) -> tuple[str, ...]:
        """The stream before the first part, and after each."""
        layers = range(self.made.model.config.n_layers)
        after = [f"blocks.{i}.hook_resid_{place}" for i in layers for place in ("mid", "post")]
        return ("blocks.0.hook_resid_pre", *after)

    def _exchanges(self, name: str) -> tuple[_Exchanges, _Exchanges] | None:
        """Exchanges that a lens may learn from, and others that score it; half of each turn a
        verdict. None where hardly any does."""
        words, pairs = self.all, self.rng.permutation(len(self.all) ** 2)[:1000]
        turned: list[tuple[Word, Word, bool]] = []
        kept: list[tuple[Word, Word, bool]] = []
        for pair in pairs:
            base, source = (words[i] for i in divmod(int(pair), len(words)))
            values: Values = self.program.trace(source)[name]
            says = self.program.says(base, dict.fromkeys((name, name + AGAIN), values))
            (turned if says != self.of.member(base) else kept).append((base, source, says))
            if min(len(turned), len(kept)) >= 2 * EXCHANGES:
                break
        count = min(len(turned), len(kept), 2 * EXCHANGES) // 2
        if count < EXCHANGES // 4:
            return None
        halves = slice(0, count), slice(count, 2 * count)
        fit, test = (self._as_exchanges(turned[half] + kept[half]) for half in halves)
        return fit, test

    def _as_exchanges(self, chosen: Sequence[tuple[Word, Word, bool]]) -> _Exchanges:
        base, source, says = zip(*chosen, strict=True)
        return _Exchanges(self.tokens(base), self.tokens(source), np.array(says))

    def rule(self) -> list[Key]:
        return [RuleKey("rule", Words(**self.told(self.all[:1])), self.of.member)]


def _one_hot(values: Float[np.ndarray, "word pos size"]) -> bool:
    """Is it a category, whose values stand side by side?"""
    whole = np.allclose(values.sum(axis=-1), 1) and np.allclose(values.max(axis=-1), 1)
    return values.shape[-1] > 1 and bool(whole)


def basis(rows: Float[np.ndarray, "row d_model"]) -> Float[np.ndarray, "rank d_model"]:
    """An orthonormal basis of the span of rows."""
    _, sizes, right = np.linalg.svd(np.asarray(rows, dtype=float), full_matrices=False)
    return right[sizes > 1e-6 * max(sizes.max(initial=0.0), 1e-12)]
