"""From a network to an automaton: active learning with AALpy.

The network is the teacher: it says whether a word is accepted, for whole batches at once and once
for each word. Kearns and Vazirani's algorithm (1994) asks, and makes hypotheses. A hypothesis
stands if the network agrees with it on four kinds of words: a large fixed sample (random words and
words near the data), words that the hypothesis accepts, the words of the W-method (Chow 1978) with
one extra state, and words of the sample's lengths that lead to every state by a random way. The
bounds are numbers of words and of states, never seconds: a busy machine gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from aalpy.base import SUL, Oracle
from aalpy.learning_algs import run_KV
from automata.fa.dfa import DFA
from automata.fa.gnfa import GNFA

from interp.automata.equivalence import (
    Tests,
    Word,
    in_order,
    long_ways,
    one_letter_each,
    own_words,
    w_method,
)

OWN_WORDS = 200  # about so many words are drawn that a hypothesis accepts
MOST_LISTED = 10  # the most symbols that an expression lists one by one
W_WORDS = 4000  # the most words of the W-method
WAYS = 1000  # the most words that reach a state by a random way
Accepts = Callable[[Sequence[Word]], np.ndarray]
"""The network's verdicts on a batch of words, [words]: True where it accepts."""
Ended = Literal["agrees", "states", "queries"]
"""Why learning ended: the hypothesis agrees within the tolerance, or needs too many states, or too
many words would have to be asked."""


@dataclass(frozen=True)
class Extraction:
    """The automaton that was learned, and how well it describes the network.

    Attributes:
        dfa: the minimal complete automaton, its states numbered breadth first. If learning did not
            end by itself, it is the hypothesis that agreed with most words of the sample.
        agrees: share of the words asked to test it on which automaton and network agree. Many of
            them were asked while it was learned: it is no estimate of other words.
        ended: why learning ended.
        whole: True if all words of the W-method were asked.
        queries: number of different words that the network judged.
    """

    dfa: DFA
    agrees: float
    ended: Ended
    whole: bool
    queries: int

    @property
    def complete(self) -> bool:
        """Did learning end by itself, within the tolerance?"""
        return self.ended == "agrees"


class _SpentError(Exception):
    """The query budget is used up."""


class Teacher:
    """A network that judges every word once, however often it is asked."""

    def __init__(self, accepts: Accepts) -> None:
        self.accepts = accepts
        self.known: dict[Word, bool] = {}

    def __call__(self, words: Sequence[Word]) -> np.ndarray:
        new = self.unknown(words)
        if new:
            self.known.update(zip(new, self.accepts(new).tolist(), strict=True))
        return np.array([self.known[word] for word in words], dtype=bool)

    def unknown(self, words: Sequence[Word]) -> list[Word]:
        """Those of the words that were not asked yet, each once."""
        return list(dict.fromkeys(word for word in words if word not in self.known))


class _Network(SUL):  # type: ignore[misc]  # AALpy is untyped
    """The network as AALpy's system under learning."""

    def __init__(self, teacher: Teacher, most: int) -> None:
        super().__init__()
        self.teacher, self.most = teacher, most
        self.word: Word = ()

    def judge(self, words: Sequence[Word]) -> np.ndarray:
        if len(self.teacher.known) + len(self.teacher.unknown(words)) > self.most:
            raise _SpentError
        return self.teacher(words)

    def query(self, word: Word) -> list[bool]:
        """The verdict on a word; the algorithm reads no verdict on its prefixes."""
        self.num_queries += 1
        return [bool(self.judge([word])[0])]

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
    Then come the words of the W-method, no longer than the longest word of the sample; last come
    words of the sample's lengths that reach every state by a random way.
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
        self.words = in_order(words)
        self.max_states, self.tolerance = max_states, tolerance
        self.lengths = [len(word) for word in self.words[:: max(1, len(self.words) // OWN_WORDS)]]
        self.best = DFA.empty_language(set(alphabet))
        self.best_agrees = -1.0
        self.ended: Ended = "agrees"

    def find_cex(self, hypothesis: Any) -> Word | None:
        if hypothesis.size > self.max_states:
            self.ended = "states"
            return None
        # Numbered breadth first: what is drawn for a state must not hang on how states are stored.
        dfa = canonical(as_dfa(hypothesis, self.alphabet), self.alphabet)
        agrees = float((run(dfa, self.words) == self.sul.judge(self.words)).mean())
        if agrees > self.best_agrees:  # of equally good ones the first, which is the smallest
            self.best, self.best_agrees = dfa, agrees
        for words in (lambda: self.words, *self._drawn(dfa)):
            wrong = self._disagreement(dfa, words())
            if wrong is not None:
                return wrong
        self.best = dfa
        return None

    def _drawn(self, dfa: DFA) -> tuple[Callable[[], list[Word]], ...]:
        """The words that depend on the hypothesis, kind by kind."""
        return (
            lambda: own_words(dfa, self.alphabet, self.lengths),
            lambda: self.w_method(dfa).words,
            lambda: long_ways(dfa, self.alphabet, self.lengths, WAYS),
        )

    def w_method(self, dfa: DFA) -> Tests:
        return w_method(dfa, self.alphabet, W_WORDS, max(map(len, self.words), default=0))

    def _disagreement(self, dfa: DFA, words: Sequence[Word]) -> Word | None:
        wrong = np.flatnonzero(run(dfa, words) != self.sul.judge(words))
        return words[wrong[0]] if len(wrong) > self.tolerance * len(words) else None

    def agreement(self, dfa: DFA) -> float:
        """The share of the words of all kinds on which automaton and network agree."""
        words = [*self.words, *(word for drawn in self._drawn(dfa) for word in drawn())]
        return float((run(dfa, words) == self.sul.judge(words)).mean())


def extract(
    accepts: Accepts,
    alphabet: Sequence[str],
    check_words: Sequence[Word],
    max_states: int = 40,
    queries: int = 100_000,
    tolerance: float = 0.0,
    empty: bool = True,
) -> Extraction:
    """Learns the automaton of a network.

    Args:
        accepts: the network's verdicts on a batch of words; a ``Teacher`` remembers them.
        alphabet: all symbols.
        check_words: words on which the automaton must agree with the network: random words, and
            words near the data. More and longer words make the result surer.
        max_states: at more states learning stops and returns the best hypothesis so far.
        queries: at so many new words asked it does so, too. A word that a teacher knows already
            costs nothing. A hypothesis can only be tested if the check words can be asked.
        tolerance: the share of each kind of words on which the automaton may differ from the
            network. A network errs now and then. The result should be the smallest automaton that
            explains all but this share, not a large one that explains the errors too.
        empty: whether the verdict on the empty word counts. For a network that was taught lines it
            does not; the automaton then gives it the verdict that makes the automaton smaller.
    """
    teacher = accepts if isinstance(accepts, Teacher) else Teacher(accepts)
    asked_before = len(teacher.known)
    network = _Network(teacher, asked_before + queries)
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
    except _SpentError:
        oracle.ended = "queries"
    dfa, agrees = oracle.best, oracle.best_agrees
    if oracle.ended == "agrees":
        agrees = oracle.agreement(dfa)  # all of these words were asked
    if not empty:
        dfa = min(dfa, toggled(dfa), key=lambda one: len(one.states))
    whole = oracle.ended == "agrees" and oracle.w_method(oracle.best).whole
    count = len(teacher.known) - asked_before
    return Extraction(canonical(dfa, alphabet), max(agrees, 0.0), oracle.ended, whole, count)


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
    rows, start, final = dfa.transitions, dfa.initial_state, dfa.final_states
    for index, word in enumerate(words):
        state = start
        for symbol in word:
            state = rows[state][symbol]
        verdicts[index] = state in final
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
    spelled, back = one_letter_each(over(dfa, letters), letters)
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
    """The canonical automaton over some of the symbols, without the others."""
    few = DFA(
        states=set(dfa.states),
        input_symbols=set(letters),
        transitions={q: {s: row[s] for s in letters} for q, row in dfa.transitions.items()},
        initial_state=dfa.initial_state,
        final_states=set(dfa.final_states),
    )
    return canonical(few, letters)
