"""The grammars of pairs that the lab has."""

from __future__ import annotations

from models.languages.grammars import phrases
from models.languages.grammars.productions import Grammar, Nonterminal, Production, grammar_of

DEEPEST = 4
"""The most brackets that are open at once in ``depths``."""
BRACKETED = ("S", "NP", "R")
"""The kinds of parts that get brackets in a parse."""


def doubled() -> Grammar:
    """a^n becomes a^n b^n."""
    rights = ("'a>' '>a' S '>b'", "'a>' '>a' '>b'")
    return grammar_of([("S", right, 1.0) for right in rights])


def depths() -> Grammar:
    """Each bracket becomes the number of brackets that are open after it."""
    rules = [("S", f"'(>1' D1 ')>0' {tail}", weight) for tail, weight in (("", 0.5), ("S", 0.5))]
    for depth in range(1, DEEPEST + 1):
        left = f"D{depth}"
        rules.append((left, "", 0.5))
        if depth < DEEPEST:
            inner = f"'(>{depth + 1}' D{depth + 1} ')>{depth}' {left}"
            rules.append((left, inner, 0.5))
    return grammar_of(rules)


def postfix() -> Grammar:
    """Sums and products of a and b, with brackets; the operator comes after both its sides."""
    rules = [
        ("E", "E '+>' T '>+'", 0.4),
        ("E", "T", 0.6),
        ("T", "T '*>' F '>*'", 0.4),
        ("T", "F", 0.6),
        ("F", "'(>' E ')>'", 0.3),
        ("F", "'a>a'", 0.35),
        ("F", "'b>b'", 0.35),
    ]
    return grammar_of(rules)


def parse() -> Grammar:
    """A sentence of ``nested`` becomes its parse, written as a sequence with brackets."""
    rules = []
    for production in phrases.nested().productions:
        right = tuple(
            part if isinstance(part, Nonterminal) else f"{part}>{part}" for part in production.right
        )
        kind = production.left.name.partition("_")[0]
        if kind in BRACKETED:
            right = (f">({kind}", *right, ">)")
        rules.append(Production(production.left, right, production.weight))
    return Grammar(tuple(rules))


EVEN, ODD = "even", "odd"


def parity_with_steps() -> Grammar:
    """Is the number of b even? The parity after each symbol is written down before the answer."""
    return _parity(steps=True)


def parity_at_once() -> Grammar:
    """Is the number of b even? The answer alone is written."""
    return _parity(steps=False)


def _parity(steps: bool) -> Grammar:
    marks = {"E": "0", "O": "1"} if steps else {"E": "", "O": ""}
    flip = {"E": "O", "O": "E"}
    rules = [("S", f"'a>{marks['E']}' E", 1.0), ("S", f"'b>{marks['O']}' O", 1.0)]
    for state, answer in (("E", EVEN), ("O", ODD)):
        rules += [(state, f"'a>{marks[state]}' {state}", 0.45)]
        rules += [(state, f"'b>{marks[flip[state]]}' {flip[state]}", 0.45)]
        rules += [(state, f"'>{answer}'", 0.1)]
    return grammar_of(rules)
