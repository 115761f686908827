"""Turing machines against another simulation, step by step on a tape of cells."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from brute import distance

from models.languages import END, Word, Words, language
from models.languages.grammars.halting import LONGEST_RUN, HaltingLanguage

HALTING = language("halting")
assert isinstance(HALTING, HaltingLanguage)


@cache  # two tests ask of the same 20,736 machines
def run(word: Word, limit: int = 150) -> int | None:
    """The steps until the machine halts; None if it has run for longer than any that does."""
    tape: dict[int, str] = defaultdict(lambda: "0")
    at, state = 0, "A"
    for step in range(limit):
        if state == "H":
            return step
        entry = 6 * "ABCD".index(state) + 3 * int(tape[at])
        write, move, state = word[entry : entry + 3]
        tape[at] = write
        at += 1 if move == "R" else -1
    return None


def is_table(word: Word) -> bool:
    states = "ABCD"[: len(word) // 6]
    return len(word) in (6, 12, 18, 24) and all(
        symbol in ("01", "LR", states + "H")[at % 3] for at, symbol in enumerate(word)
    )


def contains(word: Word) -> bool:
    return is_table(word) and run(word) is not None


def tables(states: int) -> list[Word]:
    entries = list(product("01", "LR", "ABCD"[:states] + "H"))
    return [sum(rows, ()) for rows in product(entries, repeat=2 * states)]


def test_all_machines_of_two_states() -> None:
    """20,736 of them; none that halts runs for more than six steps."""
    words = tables(2)
    assert len(words) == 20_736
    steps = [run(word) for word in words]
    batch = HALTING.vocabulary.words(words)
    assert HALTING.labels(batch).tolist() == [each is not None for each in steps]
    assert max(each for each in steps if each is not None) == LONGEST_RUN[2] == 6
    traced = HALTING.trace(Words(batch.ids[:500], batch.lengths[:500]))
    for row, each in enumerate(steps[:500]):
        if each is not None:
            assert (traced["steps"][row, -1], traced["outcome"][row, -1]) == (each, 1)
        else:
            assert traced["outcome"][row, -1] in (0, 2)


@pytest.mark.parametrize(
    ("table", "steps"),
    [
        ("1RB1LB1LA1RH", 6),
        ("1RB1RH1LB0RC1LC1LA", 21),
        ("1RB1LB1LA0LC1RH1LD1RD0RA", 107),
    ],
)
def test_the_champions_run_longest(table: str, steps: int) -> None:
    word = tuple(table)
    assert HALTING.contains(word)
    assert HALTING.state(word) == {"steps": steps, "outcome": 1, "valid": 1}
    assert LONGEST_RUN[len(word) // 6] == steps


@pytest.mark.parametrize("states", [3, 4])
def test_random_machines(states: int) -> None:
    lengths = np.full(2000, 6 * states)
    words = HALTING._random(np.random.default_rng(0), lengths)
    expected = [contains(HALTING.vocabulary.decode(ids)) for ids in words.ids]
    assert HALTING.labels(words).tolist() == expected
    assert 0.2 < np.mean(expected) < 0.8


def test_what_may_follow_is_what_some_machine_goes_on_with() -> None:
    """Machines of one state by all their words; longer ones may follow where two states do."""
    halting = {word for states in (1, 2) for word in tables(states) if contains(word)}
    starts = {word[:end] for word in halting for end in range(len(word) + 1)}
    one = [word[:end] for word in tables(1) for end in range(7)]
    for prefix in sorted(set(one)):
        follow = {s for s in HALTING.vocabulary.symbols if (*prefix, s) in starts}
        found = HALTING.next_symbols(prefix)
        # A third and a fourth state may come later.
        assert follow <= found - {END} <= follow | {"C", "D"}, prefix
        assert (END in found) == contains(prefix)
    assert HALTING.next_symbols(tuple("1RB1LH0RB1RB")) == frozenset()  # B never stops
    assert HALTING.next_symbols(tuple("1RB1LH0RC1RB")) == {"0", "1"}  # C may
    assert HALTING.next_symbols(("L",)) == frozenset()
    assert HALTING.next_symbols(tuple("1RH0LA" * 4)) == {END}
    assert HALTING.next_symbols(tuple("1RH0LA" * 5)) == frozenset()  # five states are too many


def test_batches_give_the_answers_of_single_words() -> None:
    rng = np.random.default_rng(1)
    words = HALTING.sample(rng, 60, range(1, 25)).words
    allowed, labels = HALTING.allowed(words), HALTING.labels(words)
    for row in range(60):
        word = HALTING.vocabulary.decode(words.ids[row, : words.lengths[row]])
        for end in range(len(word) + 1):
            follow = HALTING.vocabulary.decode(np.flatnonzero(allowed[row, end]))
            assert HALTING.next_symbols(word[:end]) == set(follow)
        assert labels[row] == contains(word)


@pytest.mark.parametrize("seed", range(4))
def test_repairs_are_all_the_smallest_ones(seed: int) -> None:
    """By trying: no smaller set of places will do, and every set of that size is tried."""
    rng = np.random.default_rng(seed)
    symbols = HALTING.vocabulary.symbols
    word = HALTING.vocabulary.decode(HALTING.near_misses(rng, np.array([12])).ids[0])
    if seed > 1:  # break its form too
        word = (*word[:3], symbols[int(rng.integers(2, 4))], *word[4:])
    assert not contains(word)
    for size in range(1, 4):
        sets = [
            places
            for places in combinations(range(12), size)
            if any(contains(changed(word, places, put)) for put in product(symbols, repeat=size))
        ]
        if sets:
            break
    assert list(HALTING.rationales(word) or ()) == sets
    for generator in (None, rng):
        found = HALTING.counterfactual(word, generator)
        assert contains(found)
        assert distance(word, found) == size


def changed(word: Word, places: tuple[int, ...], put: tuple[str, ...]) -> Word:
    made = list(word)
    for at, symbol in zip(places, put, strict=True):
        made[at] = symbol
    return tuple(made)


def test_near_misses_are_tables() -> None:
    rng = np.random.default_rng(0)
    missed = HALTING.near_misses(rng, np.repeat([6, 12, 18, 24], 20))
    for row in range(len(missed)):
        word = HALTING.vocabulary.decode(missed.ids[row, : missed.lengths[row]])
        assert is_table(word)
        assert not contains(word)
    member = HALTING.example()
    assert is_table(HALTING.counterfactual(member))
    assert HALTING.rationale(member) != tuple(range(len(member)))


def test_sizes_are_numbers_of_states() -> None:
    assert [HALTING.size_of(length) for length in (6, 7, 24, 30)] == [1, None, 4, None]
    assert HALTING.positive_lengths(range(40)) == [6, 12, 18, 24]
    with pytest.raises(LookupError):
        HALTING.counterfactual(tuple("0R"))
