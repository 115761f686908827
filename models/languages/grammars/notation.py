"""A grammar from the text of its productions, as nltk, textbooks and BNF write them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from models.errors import UserError
from models.languages.expressions import EMPTY
from models.languages.grammars.productions import Grammar, Nonterminal, Production
from models.plain_files import one_form

MOST_PRODUCTIONS = 500
MOST_PARTS = 40
"""The most symbols on the right side of a production."""
LEAST_SHARE = 1e-9
"""The smallest share of a weight among those of its nonterminal. Rounding loses smaller ones."""
MOST_WEIGHT = 1e100
"""Some larger ones have no sum."""

MOST_BRACKETS = 20
"""The most pairs of brackets inside each other."""
MOST_LETTERS = 100
"""The most letters of a range."""

ARROW = re.compile(r"->|→|::=")
NAME = r"<[^<>\s]+>|[\w/](?:[\w/^]|-(?!>))*"
OF_STANDARDS = re.compile(rf"({NAME})\s*(?::=|[:=])(.*)")
"""A line with the arrow of EBNF, ABNF or yacc."""
NONTERMINAL = rf"(?P<nonterminal>{NAME}"
OTHERS = (
    r"|(?P<bar>\|)|\[(?P<range>(?:\w-\w)+)\]|\[\s*(?P<weight>[-+.\d][^\]\s]*|\w+=[^\]\s\"']*)\s*\]"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<many>[*+?])|[,;]|\"(?P<double>[^\"]*)\"|'(?P<single>"
)
CLOSE = {"(": ")", "[": "]", "{": "}"}
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
    arrow may be ``→``, ``::=``, ``=`` or ``:``, and a nonterminal ``<S>``. Quotes mark the symbols
    of the language, brackets a weight; the weights of a nonterminal are made to sum to 1, and
    without weights all its productions are equally likely. An empty right side and ``ε`` are the
    empty word. As in EBNF ``( )`` holds a group, ``[ ]`` what may be left out, ``{ }`` what comes
    any number of times; ``*``, ``+`` and ``?`` stand behind what is repeated or left out, and
    ``[a-z]`` is one of these letters. A line that begins with ``#`` is a comment, one that begins
    with ``|`` goes on with the line before, and so does what follows a backslash at the end of a
    line. The first nonterminal is the start, or that of a line ``%start NP``: what it does not lead
    to is left out.

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
        if line.startswith(("|", "/ ")) and left:
            sides = [left, line[1:]]
        elif len(sides) < 2 and (standard := OF_STANDARDS.fullmatch(line)):
            sides = [*standard.groups()]
        if len(sides) < 2:
            raise UserError(f"line {number}: there is no arrow: {WRITE}")
        left = sides[0].strip()
        token = TOKENS[1].fullmatch(left)
        if token is None or not token["nonterminal"]:
            raise UserError(f"line {number}: {left!r} is no nonterminal: {WRITE}")
        rules += _Line(number, left, _tokens(sides[1], number)).productions()
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


def _tokens(text: str, line: int) -> list[re.Match[str]]:
    """The tokens of the right sides of a line."""
    readings = [list(_parts(text, tokens)) for tokens in TOKENS]
    whole = [parts for parts in readings if not _left(text, parts)]
    if not whole:
        left = min((_left(text, parts) for parts in readings), key=len)
        if left[0] in "'\"":
            raise UserError(f"line {line}: a quote is not closed: {WRITE}")
        raise UserError(f"line {line}: {left[:20]!r} cannot be read: {WRITE}")
    singles = [[token["single"] for token in parts] for parts in whole]
    strange = [any(one == "" or " " in (one or "") for one in reading) for reading in singles]
    return whole[strange.index(min(strange))]


class _Line:
    """The productions of one line. A group in it, and what is repeated, get nonterminals of their
    own: S.1, S.2 ..."""

    def __init__(self, number: int, left: str, tokens: list[re.Match[str]]) -> None:
        self.number, self.left, self.tokens = number, left, tokens[::-1]
        self.groups: list[Production] = []
        self.made = 0

    def productions(self) -> list[Production]:
        """Those of the left side first."""
        rights = self._rights("", 0)
        return [*self._of(Nonterminal(self.left), rights), *self.groups]

    def _of(self, left: Nonterminal, rights: Sequence[tuple[Right, float]]) -> list[Production]:
        return [Production(left, right, weight, self.number) for right, weight in rights]

    def _rights(self, close: str, depth: int) -> list[tuple[Right, float]]:
        """The right sides up to a bracket, each with its weight; 0 where it has none."""
        rights: list[tuple[Right, float]] = [((), 0.0)]
        while self.tokens:
            token = self.tokens.pop()
            right, weight = rights[-1]
            if token["close"] == close:
                return rights
            if token["bar"] or token["nonterminal"] == "/":  # the bar of ABNF
                rights.append(((), 0.0))
            elif weight:
                raise self._fault("a weight is not the last of its production")
            elif token["weight"] is not None:
                rights[-1] = right, _weight(token["weight"], self.number)
            elif token["many"]:
                if not right:
                    raise self._fault(f"nothing stands before {token['many']}")
                rights[-1] = (*right[:-1], self._group([(right[-1:], 0.0)], token["many"])), 0.0
            elif (part := self._part(token, depth)) is not None:
                rights[-1] = (*right, part), 0.0
        if close:
            raise self._fault(f"a bracket is not closed with {close}")
        return rights

    def _part(self, token: re.Match[str], depth: int) -> Nonterminal | str | None:
        """What a token stands for; None for a comma or a semicolon."""
        if token["open"]:
            if depth == MOST_BRACKETS:
                raise self._fault(f"over {MOST_BRACKETS} brackets stand inside each other")
            return self._group(self._rights(CLOSE[token["open"]], depth + 1), token["open"])
        if token["close"]:
            raise self._fault(f"a bracket is closed with {token['close']}, and none is open")
        if token["range"]:
            ends = [sorted(map(ord, pair[::2])) for pair in re.findall("...", token["range"])]
            letters = [chr(code) for low, high in ends for code in range(low, high + 1)]
            if len(letters) > MOST_LETTERS:
                raise self._fault(f"[{token['range']}] has over {MOST_LETTERS} letters")
            return self._group([((letter,), 0.0) for letter in letters], "(")
        if token["nonterminal"]:
            return Nonterminal(token["nonterminal"])
        return token["single"] if token["single"] is not None else token["double"]

    def _group(self, rights: list[tuple[Right, float]], sign: str) -> Nonterminal:
        """A nonterminal for right sides: for one of them, none or one, several, any number."""
        self.made += 1
        name = Nonterminal(f"{self.left}.{self.made}")
        again = [((*right, name), weight) for right, weight in rights]
        nothing: tuple[Right, float] = (), 0.0
        ways = {"(": rights, "+": rights + again, "?": [nothing, *rights], "*": [nothing, *again]}
        self.groups += self._of(name, ways[{"[": "?", "{": "*"}.get(sign, sign)])
        return name

    def _fault(self, fault: str) -> UserError:
        return UserError(f"line {self.number}: {fault}: {WRITE}")


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
