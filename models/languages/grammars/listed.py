"""Languages with few words of each length: all of them can be compared with a word."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from jaxtyping import Int

from models.languages.grammars.drawn import DrawnLanguage
from models.languages.language import ChomskyType, VariableKind
from models.languages.repairs import MOST_REPAIRS
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words


class _ListedLanguage(DrawnLanguage):
    """A language whose members of one length can be listed."""

    @abstractmethod
    def members_of(self, length: int) -> Int[np.ndarray, "members length"]:
        """All members of a length, as token ids."""

    def _has_member(self, length: int) -> bool:
        return len(self.members_of(length)) > 0

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        ids = np.full((len(lengths), int(lengths.max(initial=0))), END_ID, dtype=np.int64)
        for length in np.unique(lengths):
            rows, listed = np.flatnonzero(lengths == length), self.members_of(int(length))
            ids[rows, :length] = listed[rng.integers(len(listed), size=len(rows))]
        return Words(ids, lengths.astype(np.int64))

    def _nearest(self, word: Word) -> tuple[np.ndarray, np.ndarray]:
        """The members with the fewest substitutions, and where they are unlike the word."""
        listed = self.members_of(len(word))
        unlike = listed != self.vocabulary.words([word]).ids[0]
        nearest = unlike.sum(axis=1) == unlike.sum(axis=1).min()
        return listed[nearest], unlike[nearest]

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        members, _ = self._nearest(word)
        return self.vocabulary.decode(members[0 if rng is None else rng.integers(len(members))])

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        _, unlike = self._nearest(word)
        sets = {tuple(np.flatnonzero(row).tolist()) for row in unlike}
        return tuple(sorted(sets)) if len(sets) <= MOST_REPAIRS else None


class CrossedLanguage(_ListedLanguage):
    """a^n b^m c^n d^m with n and m of at least 1: two counts that cross, instead of one in another.

    The order of verbs in Dutch and Swiss German subordinate clauses is of this kind (Shieber 1985),
    which no context-free grammar makes.

    Variables: ``count_x`` for each symbol, ``remaining`` (symbols of the shortest way to a member),
    ``block`` (of the last symbol) and ``valid`` (1 until a symbol breaks the word).
    """

    chomsky: ChomskyType = "mildly context-sensitive"
    rule = "has first all a, then all b, then all c, then all d, as many c as a, and as many d as b"

    def __init__(self, name: str) -> None:
        self.name = name
        self.vocabulary = Vocabulary(tuple("abcd"))
        self.variables: dict[str, VariableKind] = {f"count_{s}": "count" for s in "abcd"}
        self.variables |= {"remaining": "count", "block": "category", "valid": "category"}

    @property
    def machine(self) -> str:
        return "2 counters"

    @property
    def productions(self) -> tuple[str, ...]:
        """The C of each a passes the B, which come with the d."""
        return (
            "S -> X Y",
            *("X -> 'a' X C", "X -> 'a' C", "Y -> B Y 'd'", "Y -> B 'd'", "C B -> B C"),
            *("'a' B -> 'a' 'b'", "'b' B -> 'b' 'b'", "C 'd' -> 'c' 'd'", "C 'c' -> 'c' 'c'"),
        )

    def _traced(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Counts, [batch, time + 1, symbols]; the last block; and the allowed tokens."""
        symbol = np.where(words.mask, words.ids - FIRST_SYMBOL_ID, 0)
        counts = np.cumsum(words.mask[..., None] & (symbol[..., None] == np.arange(4)), axis=1)
        counts = np.pad(counts, ((0, 0), (1, 0), (0, 0)))
        block = np.pad(symbol, ((0, 0), (1, 0)))
        a, b, c, d = np.moveaxis(counts, -1, 0)
        allowed = np.zeros((*block.shape, len(self.vocabulary)), dtype=bool)
        follow = allowed[..., FIRST_SYMBOL_ID:]
        follow[..., 0] = block == 0
        follow[..., 1] = (block == 1) | ((block == 0) & (a > 0))
        follow[..., 2] = ((block == 1) | (block == 2)) & (c < a)
        follow[..., 3] = (((block == 2) & (c == a)) | (block == 3)) & (d < b)
        allowed[..., END_ID] = (block == 3) & (d == b)
        followed = np.take_along_axis(follow[:, :-1], symbol[..., None], axis=2)[..., 0]
        followed |= ~words.mask
        valid = np.pad(
            np.logical_and.accumulate(followed, axis=1), ((0, 0), (1, 0)), constant_values=True
        )
        return counts, block, allowed & valid[..., None]

    def allowed(self, words: Words) -> np.ndarray:
        return self._traced(words)[2]

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        counts, block, allowed = self._traced(words)
        a, b, c, d = np.moveaxis(counts, -1, 0)
        valid = allowed.any(axis=2)
        remaining = np.maximum(a, 1) * 2 + np.maximum(b, 1) * 2 - (a + b + c + d)
        return {
            **{f"count_{s}": counts[..., i] for i, s in enumerate("abcd")},
            "remaining": np.where(valid, remaining, 0),
            "block": block,
            "valid": np.asarray(valid, dtype=np.int64),
        }

    def members_of(self, length: int) -> np.ndarray:
        half, odd = divmod(length, 2)
        sizes = [(n, half - n, n, half - n) for n in range(1, half)] if not odd else []
        rows = [np.repeat(np.arange(4), counts) for counts in sizes]
        return np.array(rows, dtype=np.int64).reshape(len(rows), length) + FIRST_SYMBOL_ID


class PowersLanguage(_ListedLanguage):
    """a^(2^n), n from 0: as many a as a power of two. A b never belongs to a word.

    Variables: ``count_a``, ``remaining`` (up to the next power of two), and ``valid``.
    """

    chomsky: ChomskyType = "context-sensitive"
    rule = "has only a, and as many as a power of two"

    def __init__(self, name: str) -> None:
        self.name = name
        self.vocabulary = Vocabulary(("a", "b"))
        self.variables: dict[str, VariableKind] = {
            "count_a": "count",
            "remaining": "count",
            "valid": "category",
        }

    @property
    def machine(self) -> str:
        return "a tape as long as the word"

    @property
    def productions(self) -> tuple[str, ...]:
        """Each D walks from the left end L to the right end R and doubles every a on its way; both
        ends stand for an a, too."""
        return (
            *("S -> 'a'", "S -> L R", "L -> L 'a' D", "D 'a' -> 'a' 'a' D", "D R -> 'a' R"),
            *("L -> 'a'", "R -> 'a'"),
        )

    def _counted(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The a of each prefix, those missing up to the next power of two, and is it without b?"""
        is_a = words.ids == FIRST_SYMBOL_ID
        count = np.pad(np.cumsum(is_a & words.mask, axis=1), ((0, 0), (1, 0)))
        clean = np.logical_and.accumulate(is_a | ~words.mask, axis=1)
        valid = np.pad(clean, ((0, 0), (1, 0)), constant_values=True)
        power = 2 ** np.ceil(np.log2(np.maximum(count, 1))).astype(np.int64)
        return count, power - count, valid

    def allowed(self, words: Words) -> np.ndarray:
        _, remaining, valid = self._counted(words)
        allowed = np.zeros((*valid.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., FIRST_SYMBOL_ID] = valid
        allowed[..., END_ID] = valid & (remaining == 0)
        return allowed

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        count, remaining, valid = self._counted(words)
        return {
            "count_a": count,
            "remaining": np.where(valid, remaining, 0),
            "valid": valid.astype(np.int64),
        }

    def members_of(self, length: int) -> np.ndarray:
        is_power = length > 0 and length & (length - 1) == 0
        return np.full((int(is_power), length), FIRST_SYMBOL_ID, dtype=np.int64)
