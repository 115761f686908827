"""The production rules of each language make its words, and no others: by blind rewriting."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from brute import words_up_to

from models.errors import UserError
from models.languages import (
    LANGUAGES,
    ContextFreeLanguage,
    FormalLanguage,
    Word,
    language,
)
from models.languages.grammars.notation import read
from models.languages.pairs.in_context import InContext
from models.languages.pairs.syntax_directed import SyntaxDirected

Row = tuple[str, ...]
SLACK = {"ww": 0, "powers": 0, "copy": 0, "sort": 0, "reverse": 0}
"""Parts that a row may have beyond the longest word, where rules make rows shorter."""


def parts(side: str) -> Row:
    return tuple(re.findall(r"'[^']+'|[^\s']+", side))


def rewritten(row: Row, rules: list[tuple[Row, Row]]) -> Iterator[Row]:
    for left, right in rules:
        for at in range(len(row) - len(left) + 1):
            if row[at : at + len(left)] == left:
                yield row[:at] + right + row[at + len(left) :]


def made(known: FormalLanguage, longest: int) -> set[Word]:
    """Every word up to a length that the rules make."""
    rules = [(parts(a), parts(b)) for a, b in (rule.split("->") for rule in known.productions)]
    seen: set[Row] = {("S",)}
    queue = [("S",)]
    while queue:
        for new in rewritten(queue.pop(), rules):
            symbols = sum(part.startswith("'") for part in new)
            short = symbols <= longest and len(new) <= longest + SLACK.get(known.name, 3)
            if short and new not in seen:
                seen.add(new)
                queue.append(new)
    words = (tuple(part.strip("'") for part in row) for row in seen if not unfinished(row))
    return {word for word in words if len(word) <= longest}


def unfinished(row: Row) -> bool:
    return any(not part.startswith("'") for part in row)


LONGEST = {"an": 6, "anbn": 8, "anbncn": 9, "anbncndn": 8, "anbm": 7, "wwr": 6, "ww": 6}
LONGEST |= {"anbmcndm": 8, "powers": 8, "shuffle2": 4, "dyck1": 6, "dyck2": 4, "anbn5": 10}
LONGEST |= {"copy": 5, "sort": 7, "reverse": 5}
LONGEST |= {"dyck1-unbounded": 6, "dyck2-unbounded": 4, "parity": 5, "first": 4, "tomita3": 6}


@pytest.mark.parametrize("name", LONGEST)
def test_the_rules_make_the_words(name: str) -> None:
    known = language(name)
    assert isinstance(known, FormalLanguage)
    words = made(known, LONGEST[name])
    listed = list(words_up_to(known.vocabulary.symbols, LONGEST[name]))
    inside = known.labels(known.vocabulary.words(listed))
    assert words == {word for word, is_in in zip(listed, inside, strict=True) if is_in}
    assert len(words) > 1


@pytest.mark.parametrize("name", LANGUAGES)
def test_every_language_says_its_machine(name: str) -> None:
    known = language(name)
    assert isinstance(known, FormalLanguage)
    assert known.machine
    assert bool(known.productions) == (name != "halting" and not isinstance(known, InContext))


@pytest.mark.parametrize("name", LANGUAGES)
def test_only_where_a_machine_must_halt_do_rules_make_a_row_shorter(name: str) -> None:
    """Types 1 and "mildly" have no rule that contracts; of type 2 the empty right side is known."""
    known = language(name)
    assert isinstance(known, FormalLanguage)
    if "context-sensitive" not in known.chomsky or isinstance(known, SyntaxDirected):
        return
    rules = [tuple(map(parts, rule.split("->"))) for rule in known.productions]
    shorter = [left for left, right in rules if len(left) > len(right)]
    assert shorter in ([], [("S",)])  # the empty word, where S stands on no right side
    assert not shorter or all("S" not in right for _, right in rules)


@pytest.mark.parametrize(
    ("text", "chomsky"),
    [
        ("S -> 'a' 'b' | 'a'", "finite"),
        ("S -> 'a' S | 'b'", "regular"),
        ("S -> S 'a' A | 'a'\nA -> 'b' A | 'b'", "regular"),
        ("S -> A 'x'\nA -> A E | 'b'\nE ->", "refused"),
        ("S -> E S 'a' | 'b'\nE -> ", "regular"),
        ("S -> 'a' S 'b' | 'a' 'b'", "context-free"),
        ("S -> A | B\nA -> 'a' B\nB -> A 'b' | 'c'", "context-free"),
        ("S -> S 'a' | 'a' S | 'b'", "context-free"),  # its words are those of a*ba*
        ("S -> S S | 'a'", "context-free"),
    ],
)
def test_a_grammar_that_embeds_nothing_takes_no_stack(text: str, chomsky: str) -> None:
    if chomsky == "refused":
        with pytest.raises(UserError, match="alone, again and again"):
            read(text)
        return
    known = ContextFreeLanguage("mine", read(text))
    assert known.chomsky == chomsky
    assert known.machine == ("a stack" if chomsky == "context-free" else "a finite automaton")


def test_a_stack_holds_what_is_still_to_come() -> None:
    known = language("dyck2-unbounded")
    assert isinstance(known, ContextFreeLanguage)
    stacks = known.stacks(tuple("([])"))
    assert stacks == ["S", "S ) S", "S ] S ) S", "S ) S", "S"]
    assert known.stacks(tuple("([)]")) is None
    anbm = language("anbm")
    assert isinstance(anbm, ContextFreeLanguage)
    assert anbm.stacks(tuple("aaabb")) == ["S", "T", "T b", "b b", "b", ""]
