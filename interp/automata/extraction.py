"""From a network to an automaton: active learning with AALpy.

The network is the teacher: it says whether a word is accepted, for whole batches at once and once
for each word. Kearns and Vazirani's algorithm (1994) asks, and makes hypotheses. A hypothesis
stands if the network agrees with it on three kinds of words: a large fixed sample (random words and
words near the data), words that the hypothesis accepts, and the words that the W-method (Chow 1978)
makes for it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from aalpy.base import SUL, Oracle
from aalpy.learning_algs import run_KV
from automata.fa.dfa import DFA
from automata.fa.gnfa import GNFA

Word = tuple[str, ...]
OWN_WORDS = 200  # about so many words are drawn that a hypothesis accepts
MOST_LISTED = 10  # the most symbols that an expression lists one by one
W_WORDS = 1000  # the most words of the W-method
Accepts = Callable[[Sequence[Word]], np.ndarray]
"""The network's verdicts on a batch of words, [words]: True where it accepts."""


@dataclass(frozen=True)
class Extraction:
    """The automaton that was learned, and how well it describes the network.

    Attributes:
        dfa: the minimal complete automaton.
        agrees: share of the words of all three kinds on which automaton and network agree.
        complete: True if learning ended within the tolerance; False if the bound on states or
            seconds stopped it.
        queries: how many different words the network judged.
        seconds: time spent.
    """

    dfa: DFA
    agrees: float
    complete: bool
    queries: int
    seconds: float


class _OutOfTimeError(Exception):
    """Learning has taken as long as it may."""


class Teacher:
    """A network that judges every word once, however often it is asked."""

    def __init__(self, accepts: Accepts) -> None:
        self.accepts = accepts
        self.known: dict[Word, bool] = {}

    def __call__(self, words: Sequence[Word]) -> np.ndarray:
        new = list(dict.fromkeys(word for word in words if word not in self.known))
        if new:
            self.known.update(zip(new, self.accepts(new).tolist(), strict=True))
        return np.array([self.known[word] for word in words], dtype=bool)


class _Network(SUL):  # type: ignore[misc]  # AALpy is untyped
    """The network as AALpy's system under learning."""

    def __init__(self, teacher: Teacher, until: float) -> None:
        super().__init__()
        self.teacher, self.until = teacher, until
        self.word: Word = ()

    def judge(self, words: Sequence[Word]) -> np.ndarray:
        if time.monotonic() > self.until:
            raise _OutOfTimeError
        return self.teacher(words)

    def query(self, word: Word) -> list[bool]:
        """The verdicts on all prefixes of a word, in one batch."""
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
    """Tests a hypothesis on words; returns the shortest word on which the network disagrees.

    First comes a fixed sample, which the network judges once. If a hypothesis agrees with it, words
    that the hypothesis accepts are drawn, evenly for each length; the network must accept them too.
    These words unmask an automaton that counts modulo a number, which near misses alone do not.
    Last come the words of the W-method. Each leads to a state by a random way, continues with a
    symbol, and ends with a word that tells states apart. The way is as long as needed to give the
    whole word a length of the sample.
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
        self.words = _in_order(words)
        self.max_states, self.tolerance = max_states, tolerance
        self.lengths = [len(word) for word in self.words[:: max(1, len(self.words) // OWN_WORDS)]]
        self.latest = DFA.empty_language(set(alphabet))
        self.stopped = False

    def find_cex(self, hypothesis: Any) -> Word | None:
        if hypothesis.size > self.max_states:
            self.stopped = True
            return None
        self.latest = as_dfa(hypothesis, self.alphabet).minify()
        for words in (self._fixed, self._own, self._w_method):
            wrong = self._disagreement(self.latest, words(self.latest))
            if wrong is not None:
                return wrong
        return None

    def _fixed(self, dfa: DFA) -> list[Word]:
        return self.words

    def _own(self, dfa: DFA) -> list[Word]:
        ways = _Ways(dfa, self.alphabet, dfa.final_states)
        return _in_order(ways.drawn(length, seed) for seed, length in enumerate(self.lengths))

    def _w_method(self, dfa: DFA) -> list[Word]:
        ways = {state: _Ways(dfa, self.alphabet, {state}) for state in sorted(dfa.states, key=str)}
        tests = list(product(ways, self.alphabet, telling_apart(dfa, self.alphabet)))
        rng = np.random.default_rng(len(tests))
        chosen = rng.permutation(len(tests))[:W_WORDS]
        lengths = rng.choice(self.lengths, len(chosen))
        words: list[Word | None] = []
        for seed, length in zip(chosen.tolist(), lengths.tolist(), strict=True):
            state, symbol, suffix = tests[seed]
            way = ways[state].drawn(max(0, length - 1 - len(suffix)), seed)
            words.append(None if way is None else (*way, symbol, *suffix))
        return _in_order(words)

    def _disagreement(self, dfa: DFA, words: Sequence[Word]) -> Word | None:
        wrong = np.flatnonzero(run(dfa, words) != self.sul.judge(words))
        return words[wrong[0]] if len(wrong) > self.tolerance * len(words) else None

    def agreement(self, dfa: DFA) -> float:
        """The share of the words of all three kinds on which automaton and network agree."""
        words = [*self.words, *self._own(dfa), *self._w_method(dfa)]
        return float((run(dfa, words) == self.sul.judge(words)).mean())


def telling_apart(dfa: DFA, symbols: Sequence[str]) -> list[Word]:
    """A characterisation set of a minimal automaton: words that tell any two of its states apart.

    From two states at least one of these words leads to acceptance in one and not in the other.
    """
    suffixes: list[Word] = [()]
    seen: dict[Any, tuple[bool, ...]] = {q: (q in dfa.final_states,) for q in dfa.states}
    while len(set(seen.values())) < len(seen):
        # Two states that look alike so far differ after one more symbol; such a symbol is found.
        after = {s: {q: seen[dfa.transitions[q][s]] for q in dfa.states} for s in symbols}
        symbol, which = next(
            (symbol, index)
            for symbol in symbols
            for index in range(len(suffixes))
            if len({(seen[q], after[symbol][q][index]) for q in seen}) > len(set(seen.values()))
        )
        suffixes.append((symbol, *suffixes[which]))
        seen = {q: (*row, after[symbol][q][which]) for q, row in seen.items()}
    return suffixes


class _Ways:
    """Random words that lead from the start into given states, drawn evenly for each length."""

    def __init__(self, dfa: DFA, alphabet: Sequence[str], into: Iterable[Any]) -> None:
        self.dfa, self.symbol = _one_letter_each(dfa, alphabet, into)

    def drawn(self, length: int, seed: int) -> Word | None:
        """A random word of this length; None if no word of this length leads there."""
        if not self.dfa.count_words_of_length(length):
            return None
        return tuple(self.symbol[c] for c in self.dfa.random_word(length, seed=seed))


def _in_order(words: Iterable[Word | None]) -> list[Word]:
    """Each word once, short words first."""
    return sorted({w for w in words if w is not None}, key=lambda word: (len(word), word))


def extract(
    accepts: Accepts,
    alphabet: Sequence[str],
    check_words: Sequence[Word],
    max_states: int = 40,
    max_seconds: float = 60.0,
    tolerance: float = 0.0,
    empty: bool = True,
) -> Extraction:
    """Learns the automaton of a network.

    Args:
        accepts: the network's verdicts on a batch of words; a ``Teacher`` remembers them.
        alphabet: all symbols.
        check_words: words on which the automaton must agree with the network: random words, and
            words near the data. More and longer words make the result surer.
        max_states, max_seconds: bounds at which learning stops and returns the automaton it has.
        tolerance: the share of each kind of words on which the automaton may differ from the
            network. A network errs now and then. The result should be the smallest automaton that
            explains all but this share, not a large one that explains the errors too.
        empty: whether the verdict on the empty word counts. For a network that was taught lines it
            does not; the automaton then gives it the verdict that makes the automaton smaller.
    """
    start = time.monotonic()
    teacher = accepts if isinstance(accepts, Teacher) else Teacher(accepts)
    asked_before = len(teacher.known)
    network = _Network(teacher, start + max_seconds)
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
    if not empty:
        dfa = min(dfa, toggled(dfa), key=lambda one: len(one.states))
    agrees, queries = oracle.agreement(dfa), len(teacher.known) - asked_before
    return Extraction(dfa, agrees, not oracle.stopped, queries, time.monotonic() - start)


def toggled(dfa: DFA) -> DFA:
    """The minimal automaton that gives another verdict on the empty word, and on no other word."""
    return dfa ^ DFA.from_finite_language(set(dfa.input_symbols), {""}, as_partial=False)


def as_dfa(hypothesis: Any, alphabet: Sequence[str]) -> DFA:
    """AALpy's automaton as one of automata-lib; missing transitions lead to a dead state."""
    states = hypothesis.states
    rows = {
        s.state_id: {
            a: s.transitions[a].state_id if a in s.transitions else "dead" for a in alphabet
        }
        for s in states
    }
    if any("dead" in row.values() for row in rows.values()):
        rows["dead"] = dict.fromkeys(alphabet, "dead")
    return DFA(
        states=set(rows),
        input_symbols=set(alphabet),
        transitions=rows,
        initial_state=hypothesis.initial_state.state_id,
        final_states={s.state_id for s in states if s.is_accepting},
    )


def run(dfa: DFA, words: Sequence[Word]) -> np.ndarray:
    """The automaton's verdicts on words, [words]: True where it accepts."""
    verdicts = np.empty(len(words), dtype=bool)
    for index, word in enumerate(words):
        state = dfa.initial_state
        for symbol in word:
            state = dfa.transitions[state][symbol]
        verdicts[index] = state in dfa.final_states
    return verdicts


# -- the automaton in words --------------------------------------------------------------------


def canonical(dfa: DFA, symbols: Sequence[str]) -> DFA:
    """The minimal automaton, with states numbered 0, 1, 2, ... breadth first from the start."""
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

    "∅" means that no word is accepted. Symbols of several letters are set apart by spaces. Symbols
    that the automaton never tells apart are treated as one; if there are more than ten of them,
    "[^ x y ]" lists the symbols that do not belong to them. The length of the expression may grow
    exponentially with the number of states.
    """
    if dfa.isempty():
        return "∅"
    classes = symbol_classes(dfa, symbols)
    letters = [group[0] for group in classes]
    spelled, back = _one_letter_each(over(dfa, letters), letters)
    spaced = any(len(symbol) > 1 for symbol in symbols)

    def written(symbol: str) -> str:
        return f" {symbol} " if spaced else symbol

    names = {}
    for letter, first in back.items():
        group = next(group for group in classes if group[0] == first)
        names[letter] = written(first)
        if len(group) > MOST_LISTED:
            others = [symbol for symbol in symbols if symbol not in group]
            names[letter] = f"[^{''.join(map(written, others))}]" if others else "."
        elif len(group) > 1:
            names[letter] = "|".join(map(written, group))
    expression = GNFA.from_dfa(spelled).to_regex()
    parts = []
    for before, c, after in zip(f"({expression}", expression, f"{expression[1:]})", strict=False):
        part = names.get(c, c)
        bare = c not in names or (before in "(|" and after in "|)")  # needs no brackets of its own
        parts.append(part if bare or "|" not in part else f"({part})")
    return "".join(parts).replace("  ", " ").strip()


def symbol_classes(dfa: DFA, symbols: Sequence[str]) -> list[list[str]]:
    """Classes of symbols that the automaton never tells apart, in the order of the symbols."""
    states = sorted(dfa.states, key=str)
    classes: dict[tuple[Any, ...], list[str]] = {}
    for symbol in symbols:
        column = tuple(dfa.transitions[state][symbol] for state in states)
        classes.setdefault(column, []).append(symbol)
    return list(classes.values())


def over(dfa: DFA, letters: Sequence[str]) -> DFA:
    """The minimal automaton over some of the symbols, without the others."""
    return DFA(
        states=set(dfa.states),
        input_symbols=set(letters),
        transitions={q: {s: row[s] for s in letters} for q, row in dfa.transitions.items()},
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states),
    ).minify()


def _one_letter_each(
    dfa: DFA, symbols: Sequence[str], final: Iterable[Any] | None = None
) -> tuple[DFA, dict[str, str]]:
    """The same automaton over single letters, and the symbol of each letter.

    automata-lib writes words as texts, so that a symbol has to be one letter.

    Args:
        final: accepting states to take instead of the automaton's own.
    """
    letters = {symbol: chr(0x4E00 + index) for index, symbol in enumerate(symbols)}
    spelled = DFA(
        states=set(dfa.states),
        input_symbols=set(letters.values()),
        transitions={
            state: {letters[symbol]: target for symbol, target in row.items()}
            for state, row in dfa.transitions.items()
        },
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states if final is None else final),
    )
    return spelled, {letter: symbol for symbol, letter in letters.items()}
