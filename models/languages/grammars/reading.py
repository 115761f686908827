"""A grammar from the text of its productions, as nltk reads them."""

from __future__ import annotations

import math

from models.errors import UserError
from models.languages.grammars.productions import Grammar, Nonterminal, Production
from models.reading import one_form

MOST_PRODUCTIONS = 500
MOST_PARTS = 40
"""The most symbols on the right side of a production."""


def read(text: str) -> Grammar:
    """The grammar of a text.

    Each line holds the productions of a nonterminal: ``S -> 'a' S 'b' [0.4] | 'a' 'b' [0.6]``.
    Quotes mark the symbols of the language, brackets a weight; the weights of a nonterminal are
    made to sum to 1, and without weights all its productions are equally likely. An empty right
    side is the empty word. A line that begins with ``#`` is a comment, and a backslash at the end
    of a line goes on in the next. The first nonterminal is the start.

    Raises:
        UserError: a line cannot be read, or the grammar is no good (see ``Grammar``).
    """
    from nltk.grammar import Nonterminal as Read  # 2 s, and only for a text
    from nltk.grammar import read_grammar, standard_nonterm_parser

    made: list[Production] = []
    before = ""
    for number, line in enumerate(one_form(text).splitlines(), 1):
        line = before + line.strip()
        before = line[:-1].rstrip() + " " if line.endswith("\\") else ""
        if before or not line or line.startswith("#"):
            continue
        try:
            _, found = read_grammar(line, standard_nonterm_parser, probabilistic=True)
        except ValueError as error:
            said = str(error).splitlines()[-1].strip()
            raise UserError(f"line {number}: {said}: write S -> 'a' S 'b' | 'a' 'b'") from None
        for each in found:
            right = tuple(
                Nonterminal(str(part)) if isinstance(part, Read) else str(part)
                for part in each.rhs()
            )
            left = Nonterminal(str(each.lhs()))
            made.append(Production(left, right, _weight(each.prob(), number), number))
    if before:
        raise UserError("the last line ends with a backslash, and nothing follows: take it away")
    if not made:
        raise UserError("no productions: write at least one, such as S -> 'a' S 'b' | 'a' 'b'")
    if len(made) > MOST_PRODUCTIONS:
        raise UserError(f"{len(made)} productions are too many: use at most {MOST_PRODUCTIONS}")
    for production in made:
        if len(production.right) > MOST_PARTS:
            raise UserError(
                f"line {production.line}: {len(production.right)} symbols in a row are too many: "
                f"use at most {MOST_PARTS}, and a nonterminal of its own for the rest"
            )
        for part in production.right:
            if isinstance(part, str) and (not part or part.split() != [part]):
                raise UserError(
                    f"line {production.line}: the symbol {part!r} is empty or holds a blank: write "
                    "each symbol in quotes of its own"
                )
    return Grammar(tuple(_evened(made)))


def _weight(value: float, line: int) -> float:
    if not math.isfinite(value) or value < 0:
        raise UserError(f"line {line}: the weight {value} is not above 0: give a positive number")
    return float(value)


def _evened(made: list[Production]) -> list[Production]:
    """Weights for the nonterminals that have none."""
    weighted: dict[Nonterminal, bool] = {}
    for each in made:
        told = weighted.setdefault(each.left, each.weight > 0)
        if told != (each.weight > 0):
            raise UserError(
                f"line {each.line}: only some productions of {each.left} have a weight above 0: "
                "give one to all or to none"
            )
    return [
        each if weighted[each.left] else Production(each.left, each.right, 1.0, each.line)
        for each in made
    ]
