"""Annealed automata beside the languages that labelled the words, and counts beside plain runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from automata.fa.dfa import DFA
from automata.fa.nfa import NFA
from hypothesis import given
from hypothesis import strategies as st

from interp.automata.equivalence import Word
from interp.automata.extraction import canonical, run
from interp.automata.passive import annealing
from interp.automata.passive.annealing import _Annealing, _automaton, annealed, turned
from interp.automata.rule_search import same

EVERY = DFA(
    states={0},
    input_symbols=set("ab"),
    transitions={0: {"a": 0, "b": 0}},
    initial_state=0,
    final_states={0},
)


def long_words(count: int, symbols: str, seed: int = 0) -> list[Word]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(10, 20, size=count)
    return [tuple(np.array(list(symbols))[rng.integers(len(symbols), size=n)]) for n in lengths]


@pytest.mark.parametrize(
    "regex", ["(b*ab*a)*b*", "(a|b)*abb(a|b)*", "((a|b)(a|b)(a|b))*", "(a|ba|bba)*(b|bb)?"]
)
def test_a_language_comes_back_from_long_words(regex: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "SIZES", (2, 8))
    truth = DFA.from_nfa(NFA.from_regex(regex, input_symbols=set("ab"))).minify().to_complete()
    words = long_words(400, "ab")
    found = annealed(words, run(truth, words), "ab", EVERY)
    assert same(found, truth.minify())


def test_a_few_turned_labels_are_exceptions_and_no_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annealing, "SIZES", (2, 8))
    truth = DFA.from_nfa(NFA.from_regex("(b*ab*a)*b*", input_symbols=set("ab"))).minify()
    words = long_words(150, "ab")
    labels = run(truth, words)
    labels[::15] ^= True
    assert same(annealed(words, labels, "ab", EVERY), truth)


def test_arrows_that_the_words_leave_open() -> None:
    """Beside every automaton with one arrow elsewhere, and with any accepting states."""
    truth = DFA.from_nfa(NFA.from_regex("a(a|b)*", input_symbols=set("ab"))).minify().to_complete()
    table = canonical(truth, "ab").transitions
    words: list[Word] = [("a",), ("a", "b"), ("b",), ("b", "b", "b")]  # no a comes behind a b
    labels = run(truth, words)

    def fitting(state: Any, letter: str, target: Any) -> list[DFA]:
        arrows = {q: {**table[q]} for q in table}
        arrows[state][letter] = target
        automata = [
            DFA(
                states={*table},
                input_symbols=set("ab"),
                transitions=arrows,
                initial_state=0,
                final_states={q for q, accepts in zip(table, some, strict=True) if accepts},
            )
            for some in product((False, True), repeat=len(table))
        ]
        return [dfa for dfa in automata if (run(dfa, words) == labels).all()]

    arrows = [(q, s, t) for q in sorted(table) for s in "ab" for t in sorted(table)]
    left = [f for q, s, t in arrows if table[q][s] != t and (f := fitting(q, s, t))]
    found = turned(words, labels, "ab", truth)
    assert len(found) == len(left) > 0
    for dfa, others in zip(found, left, strict=True):
        assert any(same(dfa, other) for other in others)


def test_it_goes_on_from_a_given_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given is found without a turn."""
    monkeypatch.setattr(annealing, "TURNS", 0)
    truth = DFA.from_nfa(NFA.from_regex("(a|b)*abb(a|b)*", input_symbols=set("ab"))).minify()
    words = long_words(200, "ab")
    assert same(annealed(words, run(truth, words), "ab", truth), truth)
    assert not same(annealed(words, run(truth, words), "ab", EVERY), truth)


@given(seed=st.integers(0, 10**6), size=st.integers(1, 5), width=st.integers(1, 3))
def test_states_accept_by_majority_and_exceptions_are_counted(
    seed: int, size: int, width: int
) -> None:
    rng = np.random.default_rng(seed)
    symbols = "abc"[:width]
    words = [tuple(rng.choice(list(symbols), size=rng.integers(1, 7)).tolist()) for _ in range(20)]
    labels = rng.random(20) < 0.5
    letters = np.full((6, 20), width, dtype=np.intp)
    for column, word in enumerate(words):
        letters[: len(word), column] = [symbols.index(s) for s in word]
    delta = rng.integers(size, size=(size, width))
    final, wrong = _Annealing(letters, labels).judged(delta)
    assert wrong == (run(_automaton(delta, final, symbols), words) != labels).sum()
    others = [rng.random(size) < 0.5 for _ in range(10)]
    assert all(
        wrong <= (run(_automaton(delta, other, symbols), words) != labels).sum() for other in others
    )
