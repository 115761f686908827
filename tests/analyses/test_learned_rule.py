"""The rule of a teacher that is an automaton: exact, and without a false alarm."""

from __future__ import annotations

import numpy as np
import pytest
from automata.fa.dfa import DFA

from analyses.options.rule import Discovery
from analyses.questions.rule.learned_rule import learned
from analyses.questions.rule.rule_evidence import Lines
from interp.automata.equivalence import Word
from interp.automata.extraction import run
from interp.automata.induction import Search, induce
from interp.automata.rule_search import same

ABCD = ("a", "b", "c", "d")


def minimal(states: int, symbols: tuple[str, ...], rng: np.random.Generator) -> DFA:
    """A random automaton with so many states, all needed."""
    while True:
        dfa = DFA(
            states=set(range(states)),
            input_symbols=set(symbols),
            transitions={q: {s: int(rng.integers(states)) for s in symbols} for q in range(states)},
            initial_state=0,
            final_states={q for q in range(states) if rng.random() < 0.5},
        ).minify()
        if len(dfa.states) == states:
            return dfa


def labelled(
    dfa: DFA, symbols: tuple[str, ...], count: int, longest: int, rng: np.random.Generator
) -> Lines:
    words: list[Word] = [
        tuple(rng.choice(symbols, size).tolist())
        for size in rng.integers(1, longest + 1, size=count)
    ]
    words = list(dict.fromkeys(words))
    return Lines(words, run(dfa, words))


@pytest.mark.parametrize("number", [4, 19, 30, 63])
def test_a_random_automaton_comes_back(number: int) -> None:
    """Exactly, and as a rule. The last grows with the words to the end, and does not count."""
    rng = np.random.default_rng([0, number])
    symbols = ABCD[: 2 + number % 3]
    truth = minimal(2 + number % 11, symbols, rng)
    lines = labelled(truth, symbols, 2000, 12, rng)
    held = labelled(truth, symbols, 250, 12, rng)
    about, dfa = learned(lambda words: run(truth, words), symbols, lines, held, Discovery())
    assert same(dfa, truth)
    assert (about["status"], about["doubt"], about["wrong"]) == ("rule", None, 0)
    assert about["counting"] == (number == 63)
    sides = about["agreement_sides"].values()
    assert [one["agreement"] for one in sides] == [1.0, 1.0]
    assert sum(one["words"] for one in sides) == about["fresh"]


def test_a_line_that_the_network_confirms_is_no_exception() -> None:
    """An automaton of 9 states that errs on one line would be 8 bits shorter than the truth."""
    rng = np.random.default_rng([2, 41])
    truth = minimal(10, ABCD, rng)
    lines = labelled(truth, ABCD, 800, 10, np.random.default_rng([2, 41, 7]))
    made = induce(lambda words: run(truth, words), ABCD, lines.words, lines.labels, Search())
    first, second = made.found
    assert same(first.dfa, truth)
    assert (first.wrong, first.mistaken) == (0, 0)
    assert (second.wrong, second.mistaken) == (1, 1)
    assert second.bits < first.bits
    assert not any(made.sensitive.values())


def test_an_exception_that_the_network_denies_is_noise() -> None:
    """The same lines, and the label of one of them is turned: the truth bears it."""
    rng = np.random.default_rng([2, 41])
    truth = minimal(10, ABCD, rng)
    lines = labelled(truth, ABCD, 800, 10, np.random.default_rng([2, 41, 7]))
    turned = lines.labels ^ (np.arange(len(lines.words)) == 5)
    made = induce(lambda words: run(truth, words), ABCD, lines.words, turned, Search())
    assert same(made.found[0].dfa, truth)
    assert (made.found[0].wrong, made.found[0].mistaken) == (1, 0)
