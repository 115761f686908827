"""Literals: what is read off many words at once is what the automaton of each says of each word."""

from __future__ import annotations

import re
from itertools import chain, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interp.automata.extraction import run
from interp.automata.formulas.columns import Columns
from interp.automata.formulas.literals import (
    Literal,
    block_literals,
    first_literals,
    nested,
    sums,
)
from interp.automata.rules import Families

SYMBOLS = ("a", "b", "c")
WORDS = [word for length in range(7) for word in product(range(3), repeat=length)]
NAMED = [tuple(SYMBOLS[letter] for letter in word) for word in WORDS]
COLUMNS = Columns(WORDS)
FIRST = [
    *(x for tier in (None, (0, 1), (0, 2)) for x in first_literals(range(3), tier, 3)),
    *block_literals(range(3)),
    *sums(range(3), 3),
    *nested(range(3), 3),
    Literal("same ends", ()),
]


@given(st.sampled_from(FIRST), st.data())
def test_a_column_is_what_the_automaton_says_of_each_word(
    literal: Literal, data: st.DataObject
) -> None:
    if data.draw(st.booleans()) and (longer := list(literal.longer(range(3), 5))):
        literal = data.draw(st.sampled_from(longer))
    rule = literal.rule(SYMBOLS)
    assert (run(rule.dfa, NAMED) == COLUMNS(literal)).all()
    assert (run((~rule).dfa, NAMED) != COLUMNS(literal)).all()


@pytest.mark.parametrize(
    ("literal", "expression", "text"),
    [
        (Literal("pattern", ((0, 1),)), "ab", "contains a b side by side"),
        (Literal("pattern", ((0,), (1,))), "a.*b", "contains a ... b in this order"),
        (Literal("pattern", ((0, 1), (2,))), "ab.*c", "contains a b side by side, later c"),
        (Literal("pattern", ((0, 1),), starts=True), "^ab", "starts with a b"),
        (Literal("pattern", ((0,), (1,)), ends=True), "a.*b$", "ends with b after a"),
        (Literal("pattern", ((0,), (1,)), True, True), "^a.*b$", "starts with a and ends with b"),
        (Literal("pattern", ((0, 1),), True, True), "^ab$", "is just a b"),
        (Literal("times", ((0,),), number=3), "a.*a.*a", "has at least 3 a"),
        (Literal("exactly", ((0,),), number=1), "^[bc]*a[bc]*$", "has exactly 1 a"),
        (
            Literal("pattern", ((0, 1),), tier=(0, 1)),
            "ac*b",
            "contains a b side by side (with c left out)",
        ),
        (
            Literal("runs", ((0,), (1,), (0,)), tier=(0, 1)),
            "^c*a[ac]*b[bc]*a[ac]*$",
            "is one or more a, then one or more b, then one or more a (with c left out)",
        ),
        (
            Literal("modulo", ((0,), (1,)), number=2),
            "^(c|[ab]c*[ab])*$",
            "has an even number of a and b together",
        ),
        (
            Literal("nested", ((0, 1),), tier=(0, 1), number=2),
            "^(c|a(c|ac*b)*b)*$",
            "has a b as brackets that match, nested up to depth 2 (with c left out)",
        ),
        (Literal("same ends", ()), r"^(.)(.*\1)?$", "starts and ends with the same symbol"),
    ],
)
def test_a_literal_is_an_expression_and_says_so(
    literal: Literal, expression: str, text: str
) -> None:
    texts = ["".join(word) for word in NAMED]
    searched = [re.search(expression, word) is not None for word in texts]
    assert COLUMNS(literal).tolist() == searched
    assert literal.rule(SYMBOLS).text == text


def test_pieces_that_overlap_are_counted_each_time_and_never_used_twice() -> None:
    words = Columns([(0, 0, 0), (0, 1, 0), (0, 1, 0, 0, 1, 0)])
    assert words(Literal("times", ((0, 0),), number=2)).tolist() == [True, False, False]
    assert words(Literal("pattern", ((0, 1, 0), (0, 1, 0)))).tolist() == [False, False, True]


def test_two_kinds_of_brackets_may_not_cross() -> None:
    brackets = ((0, 1), (2, 3))
    words = Columns([(0, 2, 3, 1), (0, 2, 1, 3), (0, 0, 1, 1), (1, 0)])
    read = [words(Literal("nested", brackets, tier=(0, 1, 2, 3), number=n)) for n in (1, 2)]
    assert read[0].tolist() == [False] * 4
    assert read[1].tolist() == [True, False, True, False]


def test_blocks_are_those_of_the_lecture() -> None:
    """Blocks of one to three words of eight, up to five of them: 3,928 rules."""
    assert len(list(block_literals(range(8)))) == len(set(block_literals(range(8)))) == 3928


def test_literals_cost_what_the_same_rules_of_the_families_cost() -> None:
    f = Families(SYMBOLS)
    for literal, rule in (
        (Literal("pattern", ((0,), (1,))), f.contains("a", "b")),
        (Literal("pattern", ((0, 1),)), f.side_by_side("a", "b")),
        (Literal("pattern", ((0, 1),), starts=True), f.starts("a", "b")),
        (Literal("pattern", ((0, 1),), ends=True), f.ends("a", "b")),
        (Literal("same ends", ()), f.same_ends()),
    ):
        assert literal.rule(SYMBOLS).dfa == rule.dfa
        assert max(1, literal.size(3)) == rule.size


def test_a_literal_grows_into_every_pattern() -> None:
    """Every pattern of three letters is reached from those of one letter."""
    reached = {x for x in first_literals(range(2), None, 1) if x.kind == "pattern"}
    for _ in range(6):
        reached |= set(chain.from_iterable(x.longer(range(2), 3) for x in reached))
    wanted = {x for x in first_literals(range(2), None, 3) if x.kind == "pattern"}
    assert wanted <= reached


def test_words_without_a_letter_of_the_tier_have_no_pattern_on_it() -> None:
    words = Columns([(2, 2), (), (0,)])
    assert not words(Literal("pattern", ((0, 1),), tier=(0, 1))).any()
    assert np.array_equal(words(Literal("runs", ((0,),), tier=(0,))), [False, False, True])
