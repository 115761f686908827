"""Programs of which a Transformer can be made: variables at every position, each from earlier ones.

In the spirit of RASP (Weiss, Goldberg and Yahav 2021) and Tracr (Lindner et al. 2023). A variable
is a vector at each position of a word: a category as one-hot, or numbers. There are four ways to
make one:

    Tokens, Positions    what the embedding writes
    Select               a head: it attends evenly to the keys that match, and averages their values
    Table                an MLP: a function of categories, by a hidden unit for each combination
    Steps                an MLP: which thresholds a weighted sum of numbers reaches

The program's verdict is a number, above one half for a member, at the place where a verdict is
read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from types import MappingProxyType

import numpy as np
from jaxtyping import Bool, Float

from models.languages.vocabulary import BOS_ID, Vocabulary

Values = Float[np.ndarray, "pos _"]
"""A variable at the positions of one word, BOS first."""
AGAIN = ", again"
"""The end of the name of a second copy."""
Rows = Mapping[tuple[int, ...], Sequence[float]]
"""The numbers that each combination of values gives."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable: a vector that is known at every position.

    Attributes:
        name: unique in its program.
        size: its dimensions; for a category, its values.
    """

    name: str
    size: int

    @property
    def reads(self) -> Sequence[Variable]:
        """The variables that it is made of."""
        return ()


@dataclass(frozen=True, eq=False)
class Tokens(Variable):
    """The token itself, one-hot; its values are the ids of a vocabulary."""


@dataclass(frozen=True, eq=False)
class Positions(Variable):
    """The number of the position, one-hot; BOS stands at 0."""


class Made(Variable, ABC):
    """A variable that a part of the network makes of others."""

    @property
    @abstractmethod
    def reads(self) -> Sequence[Variable]: ...

    @abstractmethod
    def at(self, inputs: Mapping[Variable, Values], seen: Bool[np.ndarray, "query key"]) -> Values:
        """Its values at the positions of a word, exactly.

        Args:
            inputs: the values of what it reads.
            seen: which keys the mask lets each query see.
        """


@dataclass(frozen=True, eq=False)
class Select(Made):
    """The mean of values over the keys that match the query; zero where none matches. BOS, on which
    a head rests without a match, must then have the value zero.

    Attributes:
        values: the variable that is averaged.
        linear: the map from its dimensions to those of the mean.
        keys: a category; None lets every key match.
        queries: a category.
        match: does this value of the keys match that one of the queries? [key, query]
    """

    values: Variable
    linear: Float[np.ndarray, "value size"]
    keys: Variable | None = None
    queries: Variable | None = None
    match: Bool[np.ndarray, "key query"] | None = None

    @property
    def reads(self) -> Sequence[Variable]:
        return tuple(dict.fromkeys(v for v in (self.values, self.keys, self.queries) if v))

    def at(self, inputs: Mapping[Variable, Values], seen: np.ndarray) -> Values:
        chosen = seen.astype(float)
        if self.keys is not None:
            assert self.queries is not None
            assert self.match is not None
            keys, queries = inputs[self.keys], inputs[self.queries]
            chosen = chosen * (queries @ self.match.T @ keys.T)
        total = chosen.sum(axis=1, keepdims=True)
        share = np.divide(chosen, total, out=np.zeros_like(chosen), where=total > 0)
        return share @ (inputs[self.values] @ self.linear)


@dataclass(frozen=True, eq=False)
class Table(Made):
    """A function of categories.

    Attributes:
        inputs: categories.
        rows: the numbers for each combination of their values; a missing combination gives 0.
    """

    inputs: Sequence[Variable]
    rows: Rows

    @property
    def reads(self) -> Sequence[Variable]:
        return self.inputs

    def at(self, inputs: Mapping[Variable, Values], seen: np.ndarray) -> Values:
        total = np.zeros((len(seen), self.size))
        for values, out in self.rows.items():
            flags = [inputs[v][:, value] for v, value in zip(self.inputs, values, strict=True)]
            total += np.prod(flags, axis=0)[:, None] * np.asarray(out)
        return total


@dataclass(frozen=True, eq=False)
class Steps(Made):
    """The thresholds that a weighted sum reaches: ``start``, and a row of ``out`` for each of them.

    Attributes:
        weights: the weights of the dimensions of each variable that is added up.
        thresholds: each stands in the middle of a gap, in which the sum never lies.
        gaps: the width of each gap.
        out: the numbers that reaching each threshold adds, [threshold, size].
        start: the value below all thresholds.
    """

    weights: Mapping[Variable, Float[np.ndarray, " _"]]
    thresholds: Sequence[float]
    gaps: Sequence[float]
    out: Float[np.ndarray, "threshold size"]
    start: Float[np.ndarray, " size"] = field(default_factory=lambda: np.zeros(1))

    @property
    def reads(self) -> Sequence[Variable]:
        return tuple(self.weights)

    def at(self, inputs: Mapping[Variable, Values], seen: np.ndarray) -> Values:
        total = sum(inputs[variable] @ weight for variable, weight in self.weights.items())
        reached = total[:, None] >= np.asarray(self.thresholds)
        return self.start + reached @ self.out


@dataclass(frozen=True)
class Program:
    """A program for the words of a bounded language.

    Attributes:
        name: the name of the language.
        vocabulary: the vocabulary of its words.
        longest: the most symbols of a word.
        verdict: a number, above one half for members where the verdict is read.
        ahead: whether positions see what comes later; the verdict is then read at BOS.
    """

    name: str
    vocabulary: Vocabulary
    longest: int
    verdict: Variable
    ahead: bool = False

    @cached_property
    def variables(self) -> Sequence[Variable]:
        """All variables, each after those that it reads."""
        order: dict[Variable, None] = {}

        def visit(variable: Variable) -> None:
            if variable in order:  # several variables read it
                return
            for source in variable.reads:
                visit(source)
            order[variable] = None

        visit(self.verdict)
        return tuple(order)

    def trace(
        self, word: Sequence[str], fixed: Mapping[str, Values] = MappingProxyType({})
    ) -> dict[str, Values]:
        """Every variable at BOS and at each symbol of a word.

        Args:
            fixed: values by name that variables get instead of their own; those that read them
                follow.
        """
        ids = [BOS_ID, *(self.vocabulary.ids[symbol] for symbol in word)]
        size = len(ids)
        mask = np.ones((size, size), dtype=bool) if self.ahead else np.tri(size, dtype=bool)
        traced: dict[Variable, Values] = {}
        for variable in self.variables:
            if variable.name in fixed:
                traced[variable] = fixed[variable.name]
            elif isinstance(variable, Tokens):
                traced[variable] = np.eye(variable.size)[ids]
            elif isinstance(variable, Positions):
                traced[variable] = np.eye(variable.size)[np.arange(size)]
            else:
                assert isinstance(variable, Made)
                traced[variable] = variable.at(traced, mask)
        return {variable.name: values for variable, values in traced.items()}

    def says(self, word: Sequence[str], fixed: Mapping[str, Values] = MappingProxyType({})) -> bool:
        """The program's verdict on a word; ``fixed`` as in ``trace``."""
        at = 0 if self.ahead else len(word)
        return bool(self.trace(word, fixed)[self.verdict.name][at, 0] > 0.5)

    def words(self) -> Iterator[tuple[str, ...]]:
        """All words that the program is for, the short ones first."""
        for length in range(1, self.longest + 1):
            yield from product(self.vocabulary.symbols, repeat=length)


def twice(program: Program, together: str) -> Program:
    """The same verdict from two copies of everything that the program makes.

    Args:
        together: "either": one copy that says yes is enough; "both": both must.
    """
    copies: dict[Variable, Variable] = {}
    for variable in program.variables:
        copies[variable] = _copy(variable, copies)
    first, second = program.verdict, copies[program.verdict]
    weights = {first: np.ones(1), second: np.ones(1)}
    threshold = 0.5 if together == "either" else 1.5
    verdict = Steps(together, 1, weights, [threshold], [0.5], np.ones((1, 1)))
    return replace(program, verdict=verdict)


def _copy(variable: Variable, copies: Mapping[Variable, Variable]) -> Variable:
    name = variable.name + AGAIN
    if isinstance(variable, Select):
        return replace(
            variable,
            name=name,
            values=copies[variable.values],
            keys=None if variable.keys is None else copies[variable.keys],
            queries=None if variable.queries is None else copies[variable.queries],
        )
    if isinstance(variable, Table):
        return replace(variable, name=name, inputs=[copies[v] for v in variable.inputs])
    if isinstance(variable, Steps):
        weights = {copies[v]: weight for v, weight in variable.weights.items()}
        return replace(variable, name=name, weights=weights)
    return variable  # the embedding is there once
