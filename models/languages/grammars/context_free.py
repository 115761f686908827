"""The language of a weighted context-free grammar: exact in what may follow and how likely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from models.errors import UserError
from models.languages.grammars.charts import Charts, Read
from models.languages.grammars.drawn import DrawnLanguage
from models.languages.grammars.lengths import ByLength, Remainders
from models.languages.grammars.normal_form import normal_form
from models.languages.grammars.productions import Grammar
from models.languages.grammars.substitutions import Substitutions
from models.languages.grammars.trees import Derivations, Tree, tree_distances
from models.languages.language import ChomskyType, VariableKind
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

EXPLORED, EXPLORED_WORDS = 15, 1000
"""The longest words, and how many of them, whose sets of next tokens get the first numbers."""


class ContextFreeLanguage(DrawnLanguage):
    """All words that a context-free grammar makes.

    Variables: ``remaining`` (the fewest symbols that make the prefix a word; 0 after a violation),
    ``next`` (which set of tokens may come next, by number), and ``valid`` (1 until no word begins
    with the prefix).

    Attributes:
        grammar: its productions. Their weights say how likely a word is.
    """

    def __init__(self, name: str, grammar: Grammar, rule: str | None = None) -> None:
        """
        Args:
            rule: a description of its words; see ``FormalLanguage.rule``.
        """
        self.name = name
        self.rule = rule
        self.grammar = grammar
        self.chomsky: ChomskyType = grammar.chomsky
        self.vocabulary = Vocabulary(grammar.symbols)
        self.variables: dict[str, VariableKind] = {
            "remaining": "count",
            "next": "category",
            "valid": "category",
        }
        self._form = normal_form(grammar)
        self._charts = Charts(self._form)
        self._by_length = ByLength(self._form)

    # -- the truth ------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        return "a stack" if self.chomsky == "context-free" else "a finite automaton"

    @property
    def productions(self) -> tuple[str, ...]:
        return tuple(str(rule) for rule in self.grammar.productions)

    def stacks(self, word: Sequence[str]) -> list[str] | None:
        """The stacks along the first derivation; None too where that is too deep to be told."""
        try:
            tree = next(self.trees(word), None)
            return None if tree is None else [" ".join(stack) for stack in tree.stacks()]
        except (UserError, RecursionError):
            return None

    def _numbers(self, words: Words) -> Int[np.ndarray, "batch time"]:
        """The symbols by number from 0, and -1 past the end."""
        return np.where(words.mask, words.ids - FIRST_SYMBOL_ID, -1)

    def _read(self, words: Words) -> Read:
        """The grammar's answers at every prefix; words that are there twice are read once."""
        numbers, back = np.unique(self._numbers(words), axis=0, return_inverse=True)
        answers, back = self._charts.read(numbers), back.ravel()
        return Read(answers.ends[back], answers.follow[back], answers.owed[back])

    def _allowed(self, answers: Read) -> np.ndarray:
        allowed = np.zeros((*answers.ends.shape, len(self.vocabulary)), dtype=bool)
        allowed[..., END_ID] = answers.ends
        allowed[..., FIRST_SYMBOL_ID:] = answers.follow
        return allowed

    def allowed(self, words: Words) -> np.ndarray:
        return self._allowed(self._read(words))

    def labels(self, words: Words) -> np.ndarray:
        numbers, back = np.unique(self._numbers(words), axis=0, return_inverse=True)
        ends = self._charts.ends(numbers)[back.ravel()]
        return np.asarray(ends[np.arange(len(words)), words.lengths])

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        answers = self._read(words)
        valid = np.isfinite(answers.owed)
        return {
            "remaining": np.where(valid, answers.owed, 0).astype(np.int64),
            "next": self._numbered(self._allowed(answers)),
            "valid": valid.astype(np.int64),
        }

    def next_probabilities(
        self, words: Words, shares: Float[np.ndarray, " longest_plus_1"] | None = None
    ) -> Float[np.ndarray, "batch time_plus_1 vocabulary"]:
        """Probabilities as in ``FormalLanguage``; without ``shares``, in the words of all lengths
        that the grammar makes."""
        if shares is not None:
            probabilities = super().next_probabilities(words, shares)
            assert probabilities is not None
            return probabilities
        return self._of_charts(words, self._charts.next)

    def _continued(self, words: Words, shares: np.ndarray) -> np.ndarray:
        rest = Remainders(self._charts, self._by_length, shares)
        return self._of_charts(words, rest.next)

    def _of_charts(self, words: Words, next_of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        numbers, back = np.unique(self._numbers(words), axis=0, return_inverse=True)
        chances = next_of(numbers)[back.ravel()]
        probabilities = np.zeros((*chances.shape[:2], len(self.vocabulary)))
        probabilities[..., END_ID] = chances[..., -1]
        probabilities[..., FIRST_SYMBOL_ID:] = chances[..., :-1]
        return probabilities

    def probability(self, word: Sequence[str]) -> float:
        """The probability that the grammar makes the word, by all its derivations together."""
        words = self.vocabulary.words([word])
        after = self.next_probabilities(words)[0]
        tokens = [*words.ids[0].tolist(), END_ID]
        return float(np.prod([after[at, token] for at, token in enumerate(tokens)]))

    def tree_distances(self, word: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Those of the first derivation. Raises UserError if it is too deep to be told."""
        return tree_distances(next(self.trees(word)))

    def trees(self, word: Sequence[str]) -> Iterator[Tree]:
        """All derivations of a word. There may be very many of a long one.

        Raises:
            UserError: a tree is too deep to be told.
        """
        try:
            yield from Derivations(self.grammar, self.vocabulary.check(word)).trees()
        except RecursionError:
            raise UserError(
                f"the tree of a word of {len(word)} symbols is too deep: give a shorter word"
            ) from None

    def _numbered(self, allowed: np.ndarray) -> np.ndarray:
        """The numbers of sets of next tokens. Rare ones, which no short prefix shows, have large
        numbers."""
        bits = self._bits(allowed)
        number = np.searchsorted(self._known_bits, bits)
        number = np.minimum(number, len(self._known_bits) - 1)
        match = self._known_bits[number] == bits
        return np.where(match, self._known_numbers[number], bits + len(self._known_bits))

    def _bits(self, allowed: np.ndarray) -> np.ndarray:
        """A number for each set of tokens, 0 for none: the exclusive or of random numbers, one for
        each token (Zobrist 1970). Two sets share a number with a probability of 2^-62."""
        keys = np.random.default_rng(0).integers(1, 1 << 62, size=allowed.shape[-1])
        return np.bitwise_xor.reduce(np.where(allowed, keys, 0), axis=-1)

    @cached_property
    def _sets(self) -> list[int]:
        """Sets of next tokens in the order in which words show them, the ones of no token first."""
        lengths = [n for n in range(1, EXPLORED + 1) if self._has_member(n)]
        rows = np.repeat(np.array(lengths, np.int64), EXPLORED_WORDS // max(1, len(lengths)))
        words = self._members(np.random.default_rng(0), rows)
        answers = self._read(words)
        inside = np.arange(answers.ends.shape[1]) <= words.lengths[:, None]
        bits = np.where(inside, self._bits(self._allowed(answers)), 0)
        return list(dict.fromkeys([0, *bits.T.ravel().tolist()]))

    @cached_property
    def _known_bits(self) -> np.ndarray:
        return np.sort(np.array(self._sets, dtype=np.int64))

    @cached_property
    def _known_numbers(self) -> np.ndarray:
        return np.argsort(np.array(self._sets, dtype=np.int64), kind="stable")

    # -- repairs --------------------------------------------------------------------------------

    def _substitutions(self, word: Word) -> Substitutions:
        ids = [self.vocabulary.ids[symbol] - FIRST_SYMBOL_ID for symbol in word]
        return Substitutions(self._form, np.array(ids, np.int64))

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        return self._substitutions(word).sets()

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        symbols = self.vocabulary.symbols
        return tuple(symbols[i] for i in self._substitutions(word).nearest(rng))

    # -- data -----------------------------------------------------------------------------------

    def _has_member(self, length: int) -> bool:
        return self._by_length.has(length)

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Draws words of these lengths by the weights of the grammar."""
        return Words.of_rows(self._by_length.draw(rng, lengths) + FIRST_SYMBOL_ID, lengths)
