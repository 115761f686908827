"""Automata learned from labelled words alone, against AALpy's own runs and planted rules."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from aalpy.learning_algs import run_EDSM

from interp.automata.equivalence import Word
from interp.automata.extraction import as_dfa, run
from interp.automata.passive import merging
from interp.automata.passive.merging import drawn, edsm, rpni

ABC = ("a", "b", "c")
FINDERS = pytest.mark.parametrize("finder", [rpni, edsm])


def labelled(
    count: int, seed: int = 0, lengths: tuple[int, int] = (2, 8), noise: float = 0.0
) -> tuple[list[Word], np.ndarray]:
    """Random words with an even number of c, and others."""
    rng = np.random.default_rng(seed)
    words = [tuple(rng.choice(ABC, n).tolist()) for n in rng.integers(*lengths, size=count)]
    even = np.array([word.count("c") % 2 == 0 for word in words])
    return words, even ^ (rng.random(count) < noise)


@FINDERS
def test_words_without_noise_are_obeyed(finder: merging.Finder) -> None:
    words, labels = labelled(300)
    learned = finder(words, labels, ABC)
    assert learned is not None
    assert (run(learned, words) == labels).all()
    assert len(learned.states) == 2


def test_the_order_of_the_words_is_no_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of single orders some give the two states, some many; of eight the smallest counts."""
    words, labels = labelled(150, lengths=(8, 16))
    orders = [np.random.default_rng(seed).permutation(len(words)) for seed in range(4)]

    def states() -> list[int]:
        automata = [rpni([words[i] for i in order], labels[order], ABC) for order in orders]
        return [len(dfa.states) for dfa in automata if dfa is not None]

    assert states() == [2, 2, 2, 2]
    monkeypatch.setattr(merging, "ORDERS", 1)
    assert len(set(states())) > 1


@pytest.mark.parametrize("seed", [0, 1])
def test_edsm_is_aalpy_s(seed: int) -> None:
    words, labels = labelled(120, seed, noise=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run_EDSM(drawn(words, labels, 10**6), "dfa", "sink_state", print_info=False)
    assert edsm(words, labels, ABC) == as_dfa(theirs, list(ABC)).minify()


def test_edsm_stops_where_its_merges_end() -> None:
    """It then gives what the first few words have taught it."""
    words, labels = labelled(900, lengths=(4, 8), noise=0.1)
    first = drawn(words, labels, merging.FIRST)
    few = edsm(words, labels, ABC, merges=0)
    assert few is not None
    assert (run(few, [word for word, _ in first]) == [label for _, label in first]).all()
    assert (run(few, words) == labels).mean() < 0.9


@FINDERS
def test_too_many_states_are_none(finder: merging.Finder) -> None:
    words, labels = labelled(200, noise=0.1)
    assert finder(words, labels, ABC, 3) is None
    clean = labelled(200)
    assert finder(*clean, ABC, 3) is not None


def test_the_words_that_are_learned_from() -> None:
    """Each once, with its commoner label; a tie is left out; both labels have their part."""
    words = [*[("a",)] * 3, ("b",), ("c",), ("c",), ("a", "b")]
    labels = np.array([True, True, False, False, True, False, True])
    assert sorted(drawn(words, labels, 100)) == [
        (("a",), True),
        (("a", "b"), True),
        (("b",), False),
    ]
    many, told = labelled(300)
    order = np.argsort(~told, kind="stable")  # the first lines alone would teach: all are accepted
    some = drawn([many[i] for i in order], told[order], 200)
    assert sum(len(word) for word, _ in some) <= 200
    assert 0.3 < np.mean([label for _, label in some]) < 0.7
    assert len(drawn(many, told, 0)) == 1


@pytest.mark.parametrize(("spent", "orders"), [({0, 1, 2}, 3), ({0, 1}, 8), (set(), 8)])
def test_orders_end_where_each_of_the_first_needs_too_many_states(
    spent: set[int], orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    merged, calls = merging._merged, list[int]()

    def counted(*args: object, **how: object) -> object:
        calls.append(len(calls))
        if calls[-1] in spent:
            raise merging._SpentError
        return merged(*args, **how)

    monkeypatch.setattr(merging, "_merged", counted)
    learned = rpni(*labelled(60), ABC)
    assert len(calls) == orders
    assert (learned is None) == (orders == 3)
