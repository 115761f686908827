"""Languages whose symbols are words of several letters, spelled in tokens.

The blank belongs to the last token of a word, and to no other. So the tokens of one word never
begin those of another, and each prefix has one reading.
"""

from __future__ import annotations

import numpy as np

from models.languages.language import Language
from models.languages.tokens.tokenised import Spelling, TokenisedLanguage
from models.languages.tokens.tokeniser import Tokeniser
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Words


class SpelledLanguage(TokenisedLanguage):
    """A language of words in letters, or in pieces of words.

    The tree of all words: node 0 is before a word, and each token leads from node to node.
    """

    def __init__(self, base: Language, tokeniser: Tokeniser) -> None:
        super().__init__(base, tokeniser)
        codes = [self.tokeniser.encode([symbol]) for symbol in base.vocabulary.symbols]
        begun = {code[:end] for code in codes for end in range(len(code) + 1)}
        nodes = {start: number for number, start in enumerate(sorted(begun, key=len))}
        self._next = np.full((len(nodes), len(self.vocabulary)), -1, dtype=np.int64)
        self._symbol = np.full(len(nodes), -1, dtype=np.int64)  # which a node ends
        self._below = np.zeros((len(nodes), len(codes)), dtype=bool)  # which it may still become
        for symbol, code in enumerate(codes):
            self._symbol[nodes[code]] = symbol
            for end in range(len(code) + 1):
                self._below[nodes[code[:end]], symbol] = True
                if end:
                    token = self.vocabulary.ids[code[end - 1]]
                    self._next[nodes[code[: end - 1]], token] = nodes[code[:end]]

    def _nodes(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """The node after each prefix, -1 after a fault; and the symbol that its last token ends,
        else -1. Both are [batch, time + 1]."""
        shape = (len(words), words.ids.shape[1] + 1)
        nodes, ends = np.zeros(shape, dtype=np.int64), np.full(shape, -1)
        for t in range(words.ids.shape[1]):
            at = self._next[nodes[:, t], words.ids[:, t]]
            at = np.where((nodes[:, t] < 0) | (at < 0), -1, at)
            ends[:, t + 1] = np.where((at < 0) | ~words.mask[:, t], -1, self._symbol[at])
            nodes[:, t + 1] = np.where((at >= 0) & (self._symbol[at] >= 0), 0, at)
        return nodes, ends

    def spelling(self, words: Words) -> Spelling:
        nodes, ends = self._nodes(words)
        symbols = np.cumsum(ends >= 0, axis=1)
        counts = symbols[:, -1]
        ids = np.full((len(words), int(counts.max(initial=0))), END_ID, dtype=np.int64)
        rows, times = np.nonzero(ends >= 0)
        ids[rows, symbols[rows, times] - 1] = ends[rows, times] + FIRST_SYMBOL_ID
        return Spelling(Words(ids, counts), symbols, nodes >= 0)

    def whole(self, words: Words, spelled: Spelling) -> np.ndarray:
        nodes, _ = self._nodes(words)
        return np.asarray(nodes[np.arange(len(words)), words.lengths] == 0)

    def allowed(self, words: Words) -> np.ndarray:
        """A token may follow if it leads towards a symbol that may follow in the other language."""
        nodes, _ = self._nodes(words)
        spelled = self.spelling(words)
        of_symbols = spelled.at(self.base.allowed(spelled.words))
        towards = of_symbols[..., FIRST_SYMBOL_ID:].astype(np.float32) @ self._below.T > 0
        targets = self._next[nodes]  # [batch, time + 1, vocabulary]
        allowed = np.take_along_axis(towards, np.maximum(targets, 0), axis=2) & (targets >= 0)
        allowed[..., END_ID] = of_symbols[..., END_ID] & (nodes == 0)
        return np.asarray(allowed & spelled.right[..., None])
