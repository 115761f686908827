"""Words that are said twice: w w."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product

import numpy as np

from models.languages.grammars.drawn import DrawnLanguage
from models.languages.language import ChomskyType, VariableKind
from models.languages.repairs import MOST_REPAIRS
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words


def copying(symbols: Sequence[str], between: str = "") -> tuple[str, ...]:
    """Rules of which none makes a row shorter, for words that are followed by their copy.

    Each symbol brings its copy X, that of the last symbol is the end Y. Copies walk to the end,
    where one after the other is spelled behind it, the last one first.

    Args:
        between: a symbol between the word and its copy.
    """
    pairs = list(enumerate(symbols))
    behind = [f"X{i} Y{j} -> Y{i} {s!r}" for i, _ in pairs for j, s in pairs]
    middle = f"{between!r} " if between else ""
    return (*_brought(symbols), *behind, *(f"Y{i} -> {middle}{s!r}" for i, s in pairs))


def sorting(symbols: Sequence[str], between: str) -> tuple[str, ...]:
    """Rules of which none makes a row shorter, for words that are followed by their symbols in
    order.

    Copies walk to the end Y, as in ``copying``. There the smaller one stays, and the other goes
    behind as Z, where all are sorted. Then they are spelled from left to right: C is the next, and
    passes on to none that is smaller, so a row that is not sorted is never spelled to its end.
    """
    pairs, middle = list(enumerate(symbols)), repr(between)
    rules = list(_brought(symbols))
    for (i, a), (j, _) in product(pairs, repeat=2):
        rules.append(f"X{i} Y{j} -> Y{min(i, j)} Z{max(i, j)}")
        if i > j:
            rules.append(f"Z{i} Z{j} -> Z{j} Z{i}")
        else:
            rules += [f"Y{i} Z{j} -> {middle} {a!r} C{j}", f"C{i} Z{j} -> {a!r} C{j}"]
    ends = ((f"Y{i} -> {middle} {a!r}", f"C{i} -> {a!r}") for i, a in pairs)
    return (*rules, *chain.from_iterable(ends))


def _brought(symbols: Sequence[str]) -> Iterator[str]:
    """Rules of a word whose symbols bring their copies X, which walk to the copy Y of the last."""
    for left, (i, s) in product("ST", enumerate(symbols)):
        yield from (f"{left} -> {s!r} X{i} T", f"{left} -> {s!r} Y{i}")
    yield from (f"X{i} {s!r} -> {s!r} X{i}" for i in range(len(symbols)) for s in symbols)


class CopyLanguage(DrawnLanguage):
    """All words w w, where w is not empty: the second half repeats the first, in the same order.

    Any beginning can be gone on with, so only the end is ever forbidden. Variables: ``remaining``
    (the fewest symbols that make the prefix a member), and ``due`` (the next one of them, by number
    from 1; 0 where the word may end, and 0 too before the first symbol).
    """

    chomsky: ChomskyType = "mildly context-sensitive"
    rule = "says something twice, in the same order"

    def __init__(self, name: str, symbols: str) -> None:
        self.name = name
        self.vocabulary = Vocabulary(tuple(symbols))
        self.variables: dict[str, VariableKind] = {
            "remaining": "count",
            "due": "category",
            "valid": "category",
        }

    @property
    def machine(self) -> str:
        return "a queue, or a tape as long as the word"

    @property
    def productions(self) -> tuple[str, ...]:
        return copying(self.vocabulary.symbols)

    def _half(self, words: Words) -> np.ndarray:
        """The least length of w for each prefix, [batch, time + 1]: from there on it repeats."""
        ids, time = words.ids, words.ids.shape[1]
        least = np.broadcast_to(np.maximum(np.arange(time + 1), 1), (len(words), time + 1)).copy()
        for half in range(time - 1, 0, -1):
            match = np.logical_and.accumulate(ids[:, half:] == ids[:, : time - half], axis=1)
            match = np.pad(match, ((0, 0), (1, 0)), constant_values=True)  # prefixes from half on
            ends = np.arange(half, time + 1)
            valid = match & (ends <= 2 * half)
            least[:, half:] = np.where(valid, half, least[:, half:])
        return least

    def allowed(self, words: Words) -> np.ndarray:
        half = self._half(words)
        allowed = np.ones((*half.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., :FIRST_SYMBOL_ID] = False
        allowed[..., END_ID] = 2 * half == np.arange(half.shape[1])
        return allowed

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        half = self._half(words)
        at = np.broadcast_to(np.arange(half.shape[1]), half.shape)
        remaining = 2 * half - at
        padded = np.pad(words.ids, ((0, 0), (0, 1)), constant_values=END_ID)
        due = np.take_along_axis(padded, np.maximum(at - half, 0), axis=1) - FIRST_SYMBOL_ID + 1
        return {
            "remaining": remaining,
            "due": np.where((remaining > 0) & (at > 0), due, 0),
            "valid": np.ones_like(half),
        }

    def _has_member(self, length: int) -> bool:
        return length % 2 == 0

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        ids = self._random(rng, lengths).ids
        at = np.arange(ids.shape[1])
        half = lengths[:, None] // 2
        return Words.of_rows(np.take_along_axis(ids, at - np.where(at < half, 0, half), 1), lengths)

    def _continued(self, words: Words, shares: np.ndarray) -> np.ndarray:
        """Weights: even over the symbols in the first half, all on one symbol in the second."""
        size, time = len(self.vocabulary.symbols), words.ids.shape[1]
        weights = np.zeros((len(words), time + 1, len(self.vocabulary)))
        rows = np.arange(len(words))
        for length in np.flatnonzero(shares).tolist():
            half = length // 2
            begins = np.ones(len(words), dtype=bool)
            for at in range(min(time, length) + 1):
                if at > half:
                    begins &= words.ids[:, at - 1] == words.ids[:, at - 1 - half]
                share = shares[length] * begins * (1.0 / size) ** min(at, half)
                if at == length:
                    weights[:, at, END_ID] += share
                elif at < half:
                    weights[:, at, FIRST_SYMBOL_ID:] += share[:, None] / size
                else:
                    weights[rows, at, words.ids[:, at - half]] += share
        return weights

    def _unlike(self, word: Word) -> list[tuple[int, int]]:
        """The pairs of positions that should be alike and are not."""
        half = len(word) // 2
        return [(i, i + half) for i in range(half) if word[i] != word[i + half]]

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        changed = list(word)
        for pair in self._unlike(word):
            side = 0 if rng is None else int(rng.integers(2))
            changed[pair[1 - side]] = word[pair[side]]
        return tuple(changed)

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        pairs = self._unlike(word)
        if 2 ** len(pairs) > MOST_REPAIRS:
            return None
        return tuple(sorted(tuple(sorted(choice)) for choice in product(*pairs)))
