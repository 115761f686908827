"""Files of JFLAP: an automaton is taken for its language, a grammar for its productions."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.errors import UserError
from models.languages import language
from models.languages.files.jflap import productions_of

Arrow = tuple[int, str, int]


def machine(arrows: list[Arrow], final: set[int], states: int) -> str:
    """A file as JFLAP writes it; state 0 is the start."""
    marks = {n: "<initial/>" * (n == 0) + "<final/>" * (n in final) for n in range(states)}
    parts = [f'<state id="{n}" name="q{n}"><x>0</x>{mark}</state>' for n, mark in marks.items()]
    parts += [
        f"<transition><from>{a}</from><to>{b}</to><read>{letters}</read></transition>"
        for a, letters, b in arrows
    ]
    inside = f"<automaton>{''.join(parts)}</automaton>"
    return f'<?xml version="1.0"?><structure><type>fa</type>{inside}</structure>'


def accepts(arrows: list[Arrow], final: set[int], word: str) -> bool:
    """Is there a way through the arrows that reads the word?"""
    seen, queue = {(0, 0)}, [(0, 0)]
    for state, at in queue:
        for source, letters, goal in arrows:
            after = (goal, at + len(letters))
            if source == state and word.startswith(letters, at) and after not in seen:
                seen.add(after)
                queue.append(after)
    return any((state, len(word)) in seen for state in final)


STATES = 4
ARROWS = st.lists(
    st.tuples(
        st.integers(0, STATES - 1),
        st.sampled_from(["", "a", "b", "ab", "bba"]),
        st.integers(0, STATES - 1),
    ),
    min_size=1,
    max_size=8,
)


@given(ARROWS, st.sets(st.integers(0, STATES - 1), min_size=1))
def test_an_automaton_is_taken_for_its_language(arrows: list[Arrow], final: set[int]) -> None:
    words = ["".join(word) for n in range(1, 7) for word in product("ab", repeat=n)]
    expected = {word: accepts(arrows, final, word) for word in words}
    try:
        made = language("mine", grammar=productions_of(machine(arrows, final, STATES), "m.jff"))
    except UserError:  # with too few words, or with all
        return
    symbols = set(made.vocabulary.symbols)
    known = [word for word in words if {*word} <= symbols]
    assert {word: made.contains(tuple(word)) for word in known} == {w: expected[w] for w in known}
    assert not any(expected[word] for word in set(words) - set(known))


def test_a_grammar_has_one_letter_a_symbol() -> None:
    rules = [("S", "aSb"), ("S", ' "T'), ("T", "c")]
    inside = "".join(
        f"<production><left>{left}</left><right>{right}</right></production>"
        for left, right in rules
    )
    text = f"<structure><type>grammar</type>{inside}<production><left>T</left></production>"
    made = language("mine", grammar=productions_of(f"{text}</structure>", "g.jff"))
    assert made.contains(("a", '"', "c", "b"))
    assert made.contains(("a", '"', "b"))
    assert not made.contains(("a", "c", "b"))


LARGE = [(0, "a", 0), (0, "b", 0), (0, "a", 1)]
LARGE += [(n, letter, n + 1) for n in range(1, 20) for letter in "ab"]
"""Words whose twentieth letter from the end is an a: a million states, if every step is fixed."""
TYPED = "<structure><type>{}</type>{}</structure>"
PRODUCTION = "<production><left>{}</left><right>a</right></production>"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<structure>", " is XML, and no file of JFLAP: give"),
        ('<!DOCTYPE a [<!ENTITY b "b">]><structure/>', " is XML, and no file of JFLAP: give"),
        ("<html/>", " holds nothing that the lab knows: give"),
        (TYPED.format("pda", ""), " holds a pushdown automaton: JFLAP turns it into a grammar"),
        (TYPED.format("turing", ""), " holds a Turing machine: give"),
        (TYPED.format("re", ""), " holds an expression: give it with --regex"),
        (TYPED.format("grammar", PRODUCTION.format("aS")), ": 'aS' stands left of an arrow"),
        (TYPED.format("grammar", PRODUCTION.format("s")), ": 's' stands left of an arrow"),
        (machine([(0, "a", 7)], {0}, 1), ": the automaton has an arrow between 0 and 7"),
        (machine([], {0}, 1), ": the automaton reads nothing"),
        (machine([(0, "a", 0)], set(), 1), ": the automaton has 1 initial states and 0 final ones"),
        (machine(LARGE, {20}, 21), ": the automaton reads nothing, or needs over"),
    ],
)
def test_other_files_are_refused_with_the_cure(text: str, says: str) -> None:
    with pytest.raises(UserError, match=f"^m.jff{says}"):
        productions_of(text, "m.jff")
