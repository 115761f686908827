"""From a network to an automaton: active learning with AALpy.

The network is the teacher: it answers whether a word is accepted, for whole batches at once and
each word once. Kearns and Vazirani's algorithm (1994) asks; a hypothesis stands when no word of a
large fixed sample, random words and words near the data, tells it from the network.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from aalpy.base import SUL, Oracle
from aalpy.learning_algs import run_KV
from automata.fa.dfa import DFA
from automata.fa.gnfa import GNFA

Word = tuple[str, ...]
OWN_WORDS = 200  # words that a hypothesis is asked for
Accepts = Callable[[Sequence[Word]], np.ndarray]
"""Batched membership: True where the network accepts the word."""


@dataclass(frozen=True)
class Extraction:
    """What came out.

    Attributes:
        dfa: the minimal complete automaton.
        agrees: share of the check words on which automaton and network agree.
        complete: True if learning ended within the tolerance; False if a bound stopped it: then no
            automaton of ``max_states`` states describes the network on the check words.
        queries: different words that the network judged.
        seconds: time spent.
    """

    dfa: DFA
    agrees: float
    complete: bool
    queries: int
    seconds: float


class _OutOfTimeError(Exception):
    """Learning has taken as long as it may."""


class _Network(SUL):  # type: ignore[misc]  # AALpy is untyped
    """The network as AALpy's system under learning, every word judged once."""

    def __init__(self, accepts: Accepts, until: float) -> None:
        super().__init__()
        self.accepts, self.until = accepts, until
        self.known: dict[Word, bool] = {}
        self.word: Word = ()

    def judge(self, words: Sequence[Word]) -> np.ndarray:
        if time.monotonic() > self.until:
            raise _OutOfTimeError
        new = list(dict.fromkeys(word for word in words if word not in self.known))
        if new:
            self.known.update(zip(new, self.accepts(new).tolist(), strict=True))
        return np.array([self.known[word] for word in words])

    def query(self, word: Word) -> list[bool]:
        """The verdicts on all prefixes, in one batch."""
        self.num_queries += 1
        prefixes = [word[: end + 1] for end in range(len(word))] or [()]
        return [bool(verdict) for verdict in self.judge(prefixes)]

    def pre(self) -> None:
        self.word = ()

    def post(self) -> None: ...

    def step(self, letter: str | None) -> bool:
        self.word = self.word if letter is None else (*self.word, letter)
        return bool(self.judge([self.word])[0])


class _CheckWords(Oracle):  # type: ignore[misc]  # AALpy is untyped
    """Equivalence by words; returns the shortest disagreement.

    First a fixed sample, judged once. A hypothesis that agrees with it is asked for words of its
    own: what it accepts, drawn evenly by length, the network must accept too. That finds the
    automaton that counts modulo a number, which near misses alone do not.
    """

    def __init__(
        self,
        network: _Network,
        alphabet: Sequence[str],
        words: Sequence[Word],
        max_states: int,
        tolerance: float,
    ) -> None:
        super().__init__(list(alphabet), network)
        self.words = sorted(set(words), key=lambda word: (len(word), word))
        self.max_states, self.tolerance = max_states, tolerance
        self.lengths = [len(word) for word in self.words[:: max(1, len(self.words) // OWN_WORDS)]]
        self.latest = DFA.empty_language(set(alphabet))
        self.stopped = False

    def find_cex(self, hypothesis: Any) -> Word | None:
        if hypothesis.size > self.max_states:
            self.stopped = True
            return None
        self.latest = _as_dfa(hypothesis, self.alphabet)
        fixed = self._disagreement(self.latest, self.words)
        if fixed is not None:
            return fixed
        return self._disagreement(self.latest, self._own(self.latest))

    def _own(self, dfa: DFA) -> list[Word]:
        spelled, symbol = _one_letter_each(dfa, self.alphabet)
        words = set()
        for seed, length in enumerate(self.lengths):
            if spelled.count_words_of_length(length):
                letters = spelled.random_word(length, seed=seed)
                words.add(tuple(symbol[letter] for letter in letters))
        return sorted(words, key=lambda word: (len(word), word))

    def _disagreement(self, dfa: DFA, words: Sequence[Word]) -> Word | None:
        wrong = np.flatnonzero(run(dfa, words) != self.sul.judge(words))
        return words[wrong[0]] if len(wrong) > self.tolerance * len(words) else None

    def agreement(self, dfa: DFA) -> float:
        """The share of all words, fixed and own, on which automaton and network agree."""
        words = [*self.words, *self._own(dfa)]
        return float((run(dfa, words) == self.sul.judge(words)).mean())


def extract(
    accepts: Accepts,
    alphabet: Sequence[str],
    check_words: Sequence[Word],
    max_states: int = 40,
    max_seconds: float = 60.0,
    tolerance: float = 0.0,
) -> Extraction:
    """Learns the automaton of a network.

    Args:
        accepts: the network's verdicts on a batch of words.
        alphabet: all symbols.
        check_words: words on which the automaton must agree with the network: random ones, and
            words near the data. More and longer ones make a surer automaton.
        max_states, max_seconds: where learning gives up and returns what it has.
        tolerance: the share of the fixed words, and of the automaton's own, on which it may differ
            from the network. A network errs now and then; the smallest automaton that explains all
            but so little is wanted, not a large one that explains the errors too.
    """
    start = time.monotonic()
    network = _Network(accepts, start + max_seconds)
    oracle = _CheckWords(network, alphabet, check_words, max_states, tolerance)
    try:
        run_KV(
            list(alphabet),
            network,
            oracle,
            automaton_type="dfa",
            cache_and_non_det_check=False,
            print_level=0,
        )
    except _OutOfTimeError:
        oracle.stopped = True
    network.until = math.inf
    dfa = oracle.latest.minify()
    seconds = time.monotonic() - start
    return Extraction(dfa, oracle.agreement(dfa), not oracle.stopped, len(network.known), seconds)


def _as_dfa(hypothesis: Any, alphabet: Sequence[str]) -> DFA:
    states = hypothesis.states
    return DFA(
        states={s.state_id for s in states},
        input_symbols=set(alphabet),
        transitions={s.state_id: {a: s.transitions[a].state_id for a in alphabet} for s in states},
        initial_state=hypothesis.initial_state.state_id,
        final_states={s.state_id for s in states if s.is_accepting},
    )


def run(dfa: DFA, words: Sequence[Word]) -> np.ndarray:
    """The automaton's verdicts, True where it accepts."""
    verdicts = np.empty(len(words), dtype=bool)
    for index, word in enumerate(words):
        state = dfa.initial_state
        for symbol in word:
            state = dfa.transitions[state][symbol]
        verdicts[index] = state in dfa.final_states
    return verdicts


# -- the automaton in words --------------------------------------------------------------------


def canonical(dfa: DFA, symbols: Sequence[str]) -> DFA:
    """The minimal automaton with states 0, 1, 2, ... breadth first from the start."""
    dfa = dfa.minify()
    order = [dfa.initial_state]
    for state in order:
        order.extend(
            dict.fromkeys(t for s in symbols if (t := dfa.transitions[state][s]) not in order)
        )
    name = {state: index for index, state in enumerate(order)}
    return DFA(
        states=set(name.values()),
        input_symbols=set(symbols),
        transitions={name[s]: {a: name[dfa.transitions[s][a]] for a in symbols} for s in order},
        initial_state=0,
        final_states={name[s] for s in dfa.final_states},
    )


def regex(dfa: DFA, symbols: Sequence[str]) -> str:
    """An equivalent regular expression over the symbols, by state elimination.

    "∅" if no word is accepted. Symbols of several letters are set apart by spaces.
    """
    if dfa.isempty():
        return "∅"
    spelled, back = _one_letter_each(dfa, symbols)
    expression = GNFA.from_dfa(spelled).to_regex()
    spaced = any(len(symbol) > 1 for symbol in symbols)
    return (
        "".join((f" {back[c]} " if spaced else back[c]) if c in back else c for c in expression)
        .replace("  ", " ")
        .strip()
    )


def _one_letter_each(dfa: DFA, symbols: Sequence[str]) -> tuple[DFA, dict[str, str]]:
    """The same automaton over letters, as automata-lib's words want, and the way back."""
    letters = {symbol: chr(0x4E00 + index) for index, symbol in enumerate(symbols)}
    spelled = DFA(
        states=set(dfa.states),
        input_symbols=set(letters.values()),
        transitions={
            state: {letters[symbol]: target for symbol, target in row.items()}
            for state, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states),
    )
    return spelled, {letter: symbol for symbol, letter in letters.items()}


def describe(dfa: DFA, symbols: Sequence[str]) -> str | None:
    """The rule in words, where the automaton is one of the families below; else None.

    Families are recognised by equivalence of automata, never by likeness: everything, nothing,
    "contains x ... y ... z in this order", "contains x y z side by side", "starts with",
    "ends with", "is one or more x, and nothing else".
    """
    alphabet = set(symbols)
    if dfa == DFA.universal_language(alphabet):
        return "every word"
    if dfa.isempty():
        return "no word"
    shortest = _shortest(dfa, symbols)
    families: dict[str, Callable[..., DFA]] = {
        "contains " + " ... ".join(shortest) + (" in this order" if len(shortest) > 1 else ""): (
            DFA.from_subsequence
        ),
        "contains " + " ".join(shortest) + " side by side": DFA.from_substring,
        "starts with " + " ".join(shortest): DFA.from_prefix,
        "ends with " + " ".join(shortest): DFA.from_suffix,
    }
    for name, family in families.items():
        if shortest and family(alphabet, shortest) == dfa:
            return name
    for symbol in symbols:
        rest = alphabet - {symbol}
        plus = DFA(
            states={0, 1, 2},
            input_symbols=alphabet,
            transitions={
                0: {symbol: 1} | dict.fromkeys(rest, 2),
                1: {symbol: 1} | dict.fromkeys(rest, 2),
                2: dict.fromkeys(alphabet, 2),
            },
            initial_state=0,
            final_states={1},
        )
        if plus == dfa:
            return f"is one or more {symbol}, and nothing else"
    return None


def _shortest(dfa: DFA, symbols: Sequence[str]) -> Word:
    """The first shortest accepted word, breadth first."""
    seen = {dfa.initial_state}
    queue: list[tuple[Any, Word]] = [(dfa.initial_state, ())]
    for state, word in queue:
        if state in dfa.final_states:
            return word
        for symbol in symbols:
            target = dfa.transitions[state][symbol]
            if target not in seen:
                seen.add(target)
                queue.append((target, (*word, symbol)))
    return ()
