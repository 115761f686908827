"""The programs that can be planted, one for each bounded language.

The truth is told by ``models.languages.grammars.bounded``, without the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from models.languages.grammars.bounded import BOUNDED
from models.languages.vocabulary import BOS_ID, FIRST_SYMBOL_ID, Vocabulary
from models.plants.program import Positions, Program, Rows, Select, Steps, Table, Tokens, Variable


class _Builder:
    """The tokens of a language, and the pieces that most programs are made of.

    Args:
        name: the name of the language.
    """

    def __init__(self, name: str) -> None:
        self.name, self.language = name, BOUNDED[name]
        self.longest = self.language.longest
        self.vocabulary = Vocabulary(tuple(self.language.symbols))
        self.tokens = Tokens("tokens", len(self.vocabulary))
        self.positions = Positions("positions", self.longest + 1)

    @property
    def gap(self) -> float:
        """The least that a mean of whole numbers over BOS and all symbols may differ from 0."""
        return 1 / (self.longest + 1)

    def id(self, symbol: str) -> int:
        return self.vocabulary.ids[symbol]

    @property
    def ids(self) -> range:
        return range(FIRST_SYMBOL_ID, len(self.vocabulary))

    def weights(self, of: Mapping[str, float]) -> np.ndarray:
        """A number for each token, 0 where none is given."""
        column = np.zeros((len(self.vocabulary), 1))
        for symbol, weight in of.items():
            column[self.id(symbol)] = weight
        return column

    def mean(self, name: str, of: Mapping[str, float]) -> Select:
        """The mean of numbers over BOS, which counts as 0, and all symbols so far."""
        return Select(name, 1, self.tokens, self.weights(of))

    def back(self, name: str, by: int) -> Select:
        """The token so many positions back; all zero where there is none but BOS."""
        match = np.eye(self.positions.size, k=by, dtype=bool)
        match[0] = False  # not BOS
        return Select(
            *(name, self.tokens.size, self.tokens, self.symbols_alone),
            *(self.positions, self.positions, match),
        )

    @property
    def symbols_alone(self) -> np.ndarray:
        """The token as it is, and nothing of BOS and END."""
        keep = np.eye(self.tokens.size)
        keep[:FIRST_SYMBOL_ID] = 0
        return keep

    def share_of_bos(self, name: str, match: np.ndarray) -> Select:
        """The share of BOS among BOS and the symbols that match the last one: 1 / (number + 1).

        Args:
            match: [key, query] among tokens.
        """
        match[BOS_ID] = True
        return Select(name, 1, self.tokens, self.bos, self.tokens, self.tokens, match)

    @property
    def bos(self) -> np.ndarray:
        """1 for BOS."""
        return np.eye(self.tokens.size)[:, [BOS_ID]]

    def program(self, verdict: Variable, ahead: bool = False) -> Program:
        return Program(self.name, self.vocabulary, self.longest, verdict, ahead)


def _above(
    name: str, variable: Variable, gap: float, least: float = 0.0, rises: bool = True
) -> Steps:
    """1 where a number is above ``least``, 0 where it is not; the other way round if it falls.

    Args:
        gap: the smallest distance above ``least`` that the number may have.
    """
    out = np.array([[1.0 if rises else -1.0]])
    start = np.zeros(1) if rises else np.ones(1)
    return Steps(name, 1, {variable: np.ones(1)}, [least + gap / 2], [gap / 2], out, start)


def _below(name: str, variable: Variable, gap: float) -> Steps:
    """1 where a number is below 0, and 0 where it is not."""
    weights = {variable: -np.ones(1)}
    return Steps(name, 1, weights, [gap / 2], [gap / 2], np.ones((1, 1)))


def _zero(name: str, variable: Variable, gap: float) -> Steps:
    """1 where a number is 0, and 0 where it is at least ``gap`` away from it."""
    out = np.array([[1.0], [-1.0]])
    return Steps(name, 1, {variable: np.ones(1)}, [-gap / 2, gap / 2], [gap / 2] * 2, out)


def _all(name: str, flags: Sequence[Variable]) -> Steps:
    """1 where all flags are 1."""
    count, weights = len(flags), {flag: np.ones(1) for flag in flags}
    return Steps(name, 1, weights, [count - 0.5], [0.5], np.ones((1, 1)))


def _count(builder: _Builder, name: str, share: Variable) -> Steps:
    """A count as one-hot, from the share of BOS among BOS and what is counted: 1 / (count + 1)."""
    size = builder.longest + 1
    shares = 1 / (1 + np.arange(size))  # falling
    middles, gaps = (shares[:-1] + shares[1:]) / 2, shares[:-1] - shares[1:]
    out = np.zeros((size - 1, size))
    for k in range(size - 1):  # above the middle between k and k + 1 the count is at most k
        out[k, k], out[k, k + 1] = 1, -1
    start = np.eye(size)[-1]
    return Steps(name, size, {share: np.ones(1)}, middles.tolist(), (gaps / 2).tolist(), out, start)


# -- the programs ---------------------------------------------------------------------------------


def _first_is_last() -> Program:
    """A head fetches the first symbol, an MLP compares it with the last."""
    of = _Builder("first-is-last-8")
    match = np.zeros((of.positions.size, of.positions.size), dtype=bool)
    match[1, 1:] = True
    first = Select(
        *("first", of.tokens.size, of.tokens, of.symbols_alone),
        *(of.positions, of.positions, match),
    )
    return of.program(Table("same", 1, [first, of.tokens], {(i, i): [1.0] for i in of.ids}))


def _majority() -> Program:
    """A head takes the mean of +1 and -1, an MLP looks at its sign."""
    of = _Builder("majority-10")
    return of.program(_above("more a", of.mean("lead", {"a": 1.0, "b": -1.0}), of.gap))


def _anbn() -> Program:
    """One head counts, another finds an a after a b, and a third asks whether there was any."""
    of = _Builder("anbn-10")
    before = of.back("before", 1)
    turned = Table("a after b", 1, [before, of.tokens], {(of.id("b"), of.id("a")): [1.0]})
    turns = Select("any a after b", 1, turned, np.ones((1, 1)))
    ordered = _above("ordered", turns, of.gap, rises=False)
    return of.program(
        _all("both", [_zero("equal", of.mean("lead", {"a": 1.0, "b": -1.0}), of.gap), ordered])
    )


def _depth() -> Program:
    """A head gives the depth by the position, an MLP sees where it is below zero, and a second head
    asks whether it ever was."""
    of = _Builder("depth-10")
    height = of.mean("depth", {"(": 1.0, ")": -1.0})
    ever = Select("ever below", 1, _below("below", height, of.gap), np.ones((1, 1)))
    never = _above("never below", ever, of.gap, rises=False)
    return of.program(_all("balanced", [_zero("level", height, of.gap), never]))


def _induction() -> Program:
    """A head copies the symbol before to each position. A second one looks where the last symbol
    was the one before, and asks whether an a stands there."""
    of = _Builder("induction-8")
    match = np.eye(of.tokens.size, dtype=bool)
    match[:FIRST_SYMBOL_ID] = False
    follows = Select(
        *("follows", 1, of.tokens, of.weights({"a": 1.0})),
        *(of.back("before", 1), of.tokens, match),
    )
    return of.program(_above("ever a", follows, 1 / of.longest))


def _sort_position() -> Program:
    """A head looks at the symbols that come before the last one in the alphabet, and at BOS: the
    share of BOS tells how many they are."""
    of = _Builder("sort-position-8")
    match = np.zeros((of.tokens.size, of.tokens.size), dtype=bool)
    for key, query in product(of.ids, of.ids):
        match[key, query] = key < query
    smaller = _count(of, "smaller", of.share_of_bos("share of BOS", match))
    return of.program(Table("two smaller", 1, [smaller], {(2,): [1.0]}))


def _from_the_end() -> Program:
    """A head looks two positions back from the last."""
    of = _Builder("from-the-end-10")
    third = of.back("third from the end", 2)
    return of.program(Table("is a", 1, [third], {(of.id("a"),): [1.0]}))


def _subsequence() -> Program:
    """The Dutch rule: each layer adds one symbol to what was found in order."""
    of = _Builder("subsequence-8")
    prefix: Variable = of.mean("a so far", {"a": 1.0})
    for symbol, name in (("b", "a b"), ("a", "a b a")):
        weight = 2.0 * np.eye(of.tokens.size)[of.id(symbol)]
        ends = Steps(
            *(f"ends {name}", 1, {prefix: np.ones(1), of.tokens: weight}),
            *([2 + of.gap / 2], [of.gap / 2], np.ones((1, 1))),
        )
        prefix = Select(f"{name} so far", 1, ends, np.ones((1, 1)))
    return of.program(_above("all three", prefix, of.gap))


def _modular() -> Program:
    """A head looks at the a and at BOS. The share of BOS gives their number, and an MLP its
    remainder by three."""
    of = _Builder("modular-10")
    match = np.zeros((of.tokens.size, of.tokens.size), dtype=bool)
    match[of.id("a")] = True
    number = _count(of, "number of a", of.share_of_bos("share of BOS", match))
    rows: Rows = {(k,): [1.0] for k in range(0, of.longest + 1, 3)}
    return of.program(Table("divides", 1, [number], rows))


def _histogram() -> Program:
    """A head looks at the symbols that are equal to the last, and at BOS."""
    of = _Builder("histogram-8")
    match = np.eye(of.tokens.size, dtype=bool)
    often = _count(of, "how often", of.share_of_bos("share of BOS", match))
    return of.program(Table("twice", 1, [often], {(2,): [1.0]}))


def _palindrome() -> Program:
    """All positions see the length by the share of BOS. Each fetches the symbol at its mirror
    image, and a last head asks whether any of them differs."""
    of = _Builder("palindrome-8")
    size = of.positions.size
    length = _count(of, "length", Select("share of BOS", 1, of.tokens, of.bos))
    rows: Rows = {
        (n, p): np.eye(size)[n + 1 - p].tolist() for n in range(1, size) for p in range(1, n + 1)
    }
    mirror = Table("mirror", size, [length, of.positions], rows)
    match = np.eye(size, dtype=bool)
    match[0] = False
    image = Select(
        *("other", of.tokens.size, of.tokens, of.symbols_alone), *(of.positions, mirror, match)
    )
    unequal: Rows = {(i, j): [1.0] for i, j in product(of.ids, of.ids) if i != j}
    differs = Table("differs", 1, [image, of.tokens], unequal)
    ever = Select("any differs", 1, differs, np.ones((1, 1)))
    return of.program(_above("none differs", ever, of.gap, rises=False), ahead=True)


def _most_frequent() -> Program:
    """Three heads take differences of two symbols' numbers, an MLP looks at their signs, and the
    next one asks whether the last symbol is behind any."""
    of = _Builder("most-frequent-8")
    behind: dict[str, list[Variable]] = {symbol: [] for symbol in of.language.symbols}
    for left, right in ("ab", "ac", "bc"):
        lead = of.mean(f"{left} - {right}", {left: 1.0, right: -1.0})
        behind[right].append(_above(f"{right} behind {left}", lead, of.gap))
        behind[left].append(_below(f"{left} behind {right}", lead, of.gap))
    beaten: dict[Variable, np.ndarray] = {}
    for symbol, flags in behind.items():
        row = 2.0 * np.eye(of.tokens.size)[of.id(symbol)]
        weights = {flag: np.ones(1) for flag in flags} | {of.tokens: row}
        last = Steps(f"{symbol} last and behind", 1, weights, [2.5], [0.5], np.ones((1, 1)))
        beaten[last] = np.ones(1)
    out, start = -np.ones((1, 1)), np.ones(1)
    return of.program(Steps("behind none", 1, beaten, [0.5], [0.5], out, start))


_MADE = (
    *(_first_is_last, _majority, _anbn, _depth, _induction, _sort_position),
    *(_from_the_end, _subsequence, _modular, _histogram, _palindrome, _most_frequent),
)
PROGRAMS: Mapping[str, Callable[[], Program]] = {make().name: make for make in _MADE}
"""The programs by the name of their language."""
