"""A grammar from the text of its productions, as nltk, textbooks and BNF write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from models.errors import UserError
from models.languages.expressions import EMPTY
from models.languages.grammars.productions import Grammar, Nonterminal, Production
from models.reading import one_form

MOST_PRODUCTIONS = 500
MOST_PARTS = 40
"""The most symbols on the right side of a production."""
LEAST_SHARE = 1e-9
"""The smallest share of a weight among those of its nonterminal. Rounding loses smaller ones."""
MOST_WEIGHT = 1e100
"""Some larger ones have no sum."""

ARROW = re.compile(r"->|→|::=")
NONTERMINAL = r"(?P<nonterminal><[^<>\s]+>|[\w/](?:[\w/^]|-(?!>))*"
OTHERS = r"|(?P<bar>\|)|\[\s*(?P<weight>[^\]\s]*)\s*\]|\"(?P<double>[^\"]*)\"|'(?P<single>"
TOKENS = (
    re.compile(rf"{NONTERMINAL}){OTHERS}[^']*)'"),
    # S' is a name, too, and in 'it's' the quote in the word is none that ends it.
    re.compile(rf"{NONTERMINAL}'*){OTHERS}\S*?)'(?=[\s|\[]|$)"),
)
WRITE = "write S -> 'a' S 'b' | 'a' 'b'"

Right = tuple[Nonterminal | str, ...]


def read(text: str) -> Grammar:
    """The grammar of a text.

    Each line holds the productions of a nonterminal: ``S -> 'a' S 'b' [4] | 'a' 'b' [6]``. The
    arrow may be ``→`` or ``::=``, and a nonterminal ``<S>``. Quotes mark the symbols of the
    language, brackets a weight; the weights of a nonterminal are made to sum to 1, and without
    weights all its productions are equally likely. An empty right side and ``ε`` are the empty
    word. A line that begins with ``#`` is a comment, one that begins with ``|`` goes on with the
    line before, and so does what follows a backslash at the end of a line. The first nonterminal is
    the start, or that of a line ``%start NP``: what it does not lead to is left out.

    Raises:
        UserError: a line cannot be read, or the grammar is no good (see ``Grammar``).
    """
    rules: list[Production] = []
    before, start, left = "", "", ""
    for number, line in enumerate(one_form(text).splitlines(), 1):
        line = before + line.strip()
        before = line[:-1].rstrip() + " " if line.endswith("\\") else ""
        if before or not line or line.startswith("#"):
            continue
        if line.startswith("%start"):
            if start:
                raise UserError(f"line {number}: there is a second %start: leave one of them out")
            start = line.removeprefix("%start").strip()
            if not start:
                raise UserError(f"line {number}: %start names nothing: write %start S")
            continue
        sides = ARROW.split(line, maxsplit=1)
        if line.startswith("|") and left:
            sides = [left, line[1:]]
        if len(sides) < 2:
            none = ", and = is none" if "=" in line else ""
            raise UserError(f"line {number}: there is no arrow{none}: {WRITE}")
        left = sides[0].strip()
        if not TOKENS[1].fullmatch(left) or left[0] in "|['\"":
            raise UserError(f"line {number}: {left!r} is no nonterminal: {WRITE}")
        for right, weight in _alternatives(sides[1], number):
            rules.append(Production(Nonterminal(left), right, weight, number))
    if before:
        raise UserError("the last line ends with a backslash, and nothing follows: take it away")
    if not rules:
        raise UserError("no productions: write at least one, such as S -> 'a' S 'b' | 'a' 'b'")
    if len(rules) > MOST_PRODUCTIONS:
        raise UserError(f"{len(rules)} productions are too many: use at most {MOST_PRODUCTIONS}")
    for production in rules:
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
    if len(start.split()) > 1:
        raise UserError(f"%start names {len(start.split())} nonterminals: name one")
    if start and all(production.left.name != start for production in rules):
        raise UserError(f"%start names {start}, which has no production: give it one")
    rules = _without_empty(rules)
    return Grammar(tuple(_evened(_reached(rules, Nonterminal(start)) if start else rules)))


def _reached(rules: Sequence[Production], start: Nonterminal) -> list[Production]:
    """The productions that a start leads to, its own first."""
    reached, queue = {start}, [start]
    for left in queue:
        parts = {part for rule in rules if rule.left == left for part in rule.right}
        new = sorted({p for p in parts if isinstance(p, Nonterminal)} - reached, key=str)
        reached |= set(new)
        queue += new
    result = [production for production in rules if production.left in reached]
    return sorted(result, key=lambda production: production.left != start)


def _alternatives(text: str, line: int) -> list[tuple[Right, float]]:
    """The right sides of a line, each with its weight; 0 where it has none."""
    readings = [list(_parts(text, tokens)) for tokens in TOKENS]
    whole = [parts for parts in readings if not _left(text, parts)]
    if not whole:
        left = min((_left(text, parts) for parts in readings), key=len)
        if left[0] in "'\"":
            raise UserError(f"line {line}: a quote is not closed: {WRITE}")
        raise UserError(f"line {line}: {left[:20]!r} cannot be read: {WRITE}")
    singles = [[token["single"] for token in parts] for parts in whole]
    strange = [any(one == "" or " " in (one or "") for one in reading) for reading in singles]
    parts = whole[strange.index(min(strange))]
    rights: list[tuple[Right, float]] = [((), 0.0)]
    for token in parts:
        right, weight = rights[-1]
        if token["bar"]:
            rights.append(((), 0.0))
        elif weight:
            raise UserError(f"line {line}: a weight is not the last of its production: {WRITE}")
        elif token["weight"] is not None:
            rights[-1] = right, _weight(token["weight"], line)
        elif token["nonterminal"]:
            rights[-1] = (*right, Nonterminal(token["nonterminal"])), 0.0
        else:
            quoted = token["single"] if token["single"] is not None else token["double"]
            rights[-1] = (*right, quoted), 0.0
    return rights


def _parts(text: str, tokens: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """The tokens of a text, in order, as far as there are any at the beginning of what is left."""
    at = 0
    while (token := tokens.search(text, at)) is not None and not text[at : token.start()].strip():
        yield token
        at = token.end()


def _left(text: str, parts: list[re.Match[str]]) -> str:
    """The text behind the last token."""
    return text[parts[-1].end() if parts else 0 :].strip()


def _weight(text: str, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MOST_WEIGHT:
        raise UserError(
            f"line {line}: the weight {text!r} is no number above 0, or above {MOST_WEIGHT:g}: "
            "write one, as [0.5], or leave it out"
        )
    return value


def _without_empty(rules: list[Production]) -> list[Production]:
    """The productions without the signs of the empty word that are no names of nonterminals."""
    names = {production.left.name for production in rules}
    signs = {Nonterminal(sign) for sign in EMPTY if sign not in names}
    return [
        replace(production, right=tuple(part for part in production.right if part not in signs))
        for production in rules
    ]


def _evened(rules: list[Production]) -> list[Production]:
    """Weights for the nonterminals that have none; those of the others are checked."""
    weighted: dict[Nonterminal, bool] = {}
    for rule in rules:
        expected = weighted.setdefault(rule.left, rule.weight > 0)
        if expected != (rule.weight > 0):
            raise UserError(
                f"line {rule.line}: only some productions of {rule.left} have a weight above 0: "
                "give one to all or to none"
            )
    for rule in rules:
        total = sum(sibling.weight for sibling in rules if sibling.left == rule.left)
        if weighted[rule.left] and rule.weight < LEAST_SHARE * total:
            raise UserError(
                f"line {rule.line}: the weights of {rule.left} are too far apart: let each be at "
                f"least {LEAST_SHARE:g} of their sum"
            )
    return [
        rule if weighted[rule.left] else Production(rule.left, rule.right, 1.0, rule.line)
        for rule in rules
    ]
