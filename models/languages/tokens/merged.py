"""Languages whose symbols are letters, in pieces of several letters.

Merges run across the whole word, so its tokens depend on what comes after them. Tokens are those
that the tokeniser gives if and only if each two neighbours are (Berglund and van der Merwe 2023).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from models.languages.counting import CountingLanguage
from models.languages.language import Language
from models.languages.regular import RegularLanguage
from models.languages.tokens.tokenised import Spelling, TokenisedLanguage
from models.languages.tokens.tokeniser import Tokeniser
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Words


class MergedLanguage(TokenisedLanguage):
    """A language of letters in pieces. Which token may come next is not known, unless a subclass
    knows it."""

    knows_next: bool = False

    def __init__(self, base: Language, tokeniser: Tokeniser) -> None:
        super().__init__(base, tokeniser)
        pieces = [[base.vocabulary.ids[letter] for letter in token] for token in tokeniser.tokens]
        self._sizes = np.array([0, 0, *map(len, pieces)])  # of BOS and END too
        self._letters = np.full((len(self._sizes), int(self._sizes.max())), END_ID)
        for token, piece in enumerate(pieces, FIRST_SYMBOL_ID):
            self._letters[token, : len(piece)] = piece

    @cached_property
    def neighbours(self) -> np.ndarray:
        """The pairs of tokens that may be neighbours, by the tokeniser, [vocabulary, vocabulary];
        after BOS every token may stand."""
        tokens, size = self.tokeniser.tokens, len(self.vocabulary)
        may = np.zeros((size, size), dtype=bool)
        may[0, FIRST_SYMBOL_ID:] = True
        for i, left in enumerate(tokens, FIRST_SYMBOL_ID):
            for j, right in enumerate(tokens, FIRST_SYMBOL_ID):
                may[i, j] = self.tokeniser.cut(left + right) == (left, right)
        return may

    def spelling(self, words: Words) -> Spelling:
        symbols = np.pad(np.cumsum(self._sizes[words.ids] * words.mask, axis=1), ((0, 0), (1, 0)))
        counts = symbols[:, -1]
        ids = np.full((len(words), int(counts.max(initial=0))), END_ID, dtype=np.int64)
        for letter in range(self._letters.shape[1]):
            rows, times = np.nonzero((self._sizes[words.ids] > letter) & words.mask)
            tokens = words.ids[rows, times]
            ids[rows, symbols[rows, times] + letter] = self._letters[tokens, letter]
        may = self.neighbours[words.tokens[:, :-1], words.ids] | ~words.mask
        right = np.logical_and.accumulate(may, axis=1)
        right = np.pad(right, ((0, 0), (1, 0)), constant_values=True)
        return Spelling(Words(ids, counts), symbols, right)

    def whole(self, words: Words, spelled: Spelling) -> np.ndarray:
        return np.ones(len(words), dtype=bool)

    def allowed(self, words: Words) -> np.ndarray:
        """Allows only END, and only at the end of a word of the language: nothing else is known."""
        allowed = np.zeros((len(words), words.ids.shape[1] + 1, len(self.vocabulary)), dtype=bool)
        allowed[np.arange(len(words)), words.lengths, END_ID] = self.labels(words)
        return allowed


class MergedRegular(MergedLanguage):
    """A regular language of letters in pieces: its automaton reads tokens."""

    knows_next = True
    base: RegularLanguage

    @cached_property
    def _after(self) -> np.ndarray:
        """The state after each token, [states, vocabulary]."""
        delta = self.base.delta
        after = np.repeat(np.arange(len(delta))[:, None], len(self.vocabulary), axis=1)
        for token, size in enumerate(self._sizes):
            for letter in self._letters[token, :size]:
                after[:, token] = delta[after[:, token], letter - FIRST_SYMBOL_ID]
        return after

    @cached_property
    def _live(self) -> np.ndarray:
        """Whether a word of the language may begin so, by its state and its last token."""
        live = np.repeat(self.base.accepting[:, None], len(self.vocabulary), axis=1)
        tokens = np.arange(len(self.vocabulary))
        while True:
            goes_on = live[self._after, tokens]  # [states, next token]
            grown = live | (goes_on.astype(np.float32) @ self.neighbours.T > 0)
            if (grown == live).all():
                return live
            live = grown

    def allowed(self, words: Words) -> np.ndarray:
        spelled = self.spelling(words)
        states = spelled.at(self.base.states(spelled.words))
        tokens = np.arange(len(self.vocabulary))
        allowed = self._live[self._after[states], tokens] & self.neighbours[words.tokens]
        allowed[..., END_ID] = self.base.accepting[states]
        return np.asarray(allowed & spelled.right[..., None])


class MergedCounting(MergedLanguage):
    """Equal blocks of letters in pieces: the members are few, so all of them are cut.

    Where a block goes on for longer than two tokens can be, what comes after them no longer decides
    how its beginning is cut: longer members begin alike.
    """

    knows_next = True
    base: CountingLanguage

    def __init__(self, base: Language, tokeniser: Tokeniser) -> None:
        super().__init__(base, tokeniser)
        self._reach = 0
        self._next: dict[tuple[int, int], int] = {}
        self._follow: list[np.ndarray] = [np.zeros(len(self.vocabulary), dtype=bool)]

    def _learn(self, reach: int) -> None:
        """Puts the members up to a size into the tree of all members; node 0 begins them."""
        for n in range(self._reach + 1, reach + 1):
            word = [s for s in self.base.vocabulary.symbols for _ in range(n)]
            node = 0
            for token in self.tokeniser.encode(word):
                number = self.vocabulary.ids[token]
                self._follow[node][number] = True
                if (node, number) not in self._next:
                    self._next[node, number] = len(self._follow)
                    self._follow.append(np.zeros(len(self.vocabulary), dtype=bool))
                node = self._next[node, number]
            self._follow[node][END_ID] = True
        self._reach = max(reach, self._reach)

    def allowed(self, words: Words) -> np.ndarray:
        spelled = self.spelling(words)
        longest = int(self._sizes.max())
        self._learn(int(spelled.words.lengths.max(initial=0)) + 2 * longest)
        allowed = np.zeros((*spelled.right.shape, len(self.vocabulary)), dtype=bool)
        for row, (ids, length) in enumerate(zip(words.ids, words.lengths, strict=True)):
            node = 0
            for at, token in enumerate(ids[:length].tolist()):
                allowed[row, at] = self._follow[node]
                node = self._next.get((node, token), -1)
                if node < 0:
                    break
            else:
                allowed[row, length] = self._follow[node]
        return allowed
