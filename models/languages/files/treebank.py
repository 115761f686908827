"""Treebanks in CoNLL-U: sentences whose words have tags and heads, a word a line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from conllu import parse
from conllu.exceptions import ParseException

from models.errors import UserError
from models.languages.vocabulary import Word

COLUMNS = 10


class Sentence(NamedTuple):
    """A sentence of a treebank.

    Attributes:
        words: the forms; what is written as one and has two tags, as Spanish "del", is two.
        tags: the universal part of speech of each word.
        heads: the number of the word that each depends on, from 1; 0 of the root. None of a file
            that has tags alone.
    """

    words: Word
    tags: Word
    heads: tuple[int, ...]


def is_treebank(lines: Sequence[str]) -> bool:
    """Whether each line that is no comment is a word in ten columns."""
    rows = [line.split("\t") for line in lines if line.strip() and not line.startswith("#")]
    return bool(rows) and all(len(row) == COLUMNS and row[0][:1].isdecimal() for row in rows)


def sentences(lines: Sequence[str], where: str) -> list[Sentence]:
    """The sentences of a treebank.

    Raises:
        UserError: a line is malformed, or the heads of a sentence make no tree.
    """
    try:
        parsed = parse("\n".join([*lines, "", ""]))
    except ParseException as error:
        raise UserError(f"{where} is no CoNLL-U: {error}") from None
    made = []
    for number, tokens in enumerate(parsed, 1):
        rows = [token for token in tokens if isinstance(token["id"], int)]
        words = tuple("".join(str(row["form"]).split()) for row in rows)
        heads = tuple(row["head"] for row in rows)
        if set(heads) == {None}:  # a file that is tagged alone
            heads = ()
        numbers = [row["id"] for row in rows]
        if numbers != [*range(1, len(rows) + 1)] or not (heads == () or _is_tree(heads)):
            raise UserError(
                f"{where}, sentence {number} ({' '.join(words[:6])} ...): its heads make no tree: "
                "give each word one head, and the root 0"
            )
        made.append(Sentence(words, tuple(str(row["upos"]) for row in rows), heads))
    return made


def paths(heads: Sequence[int]) -> list[list[int]]:
    """The way to each word from the root, which comes first; the word comes last."""
    ways = []
    for word in range(1, len(heads) + 1):
        way = [word]
        while heads[way[-1] - 1]:
            way.append(heads[way[-1] - 1])
        ways.append(way[::-1])
    return ways


def _is_tree(heads: Sequence[int | None]) -> bool:
    """Whether there is one root, to which every word leads."""
    if heads.count(0) != 1 or not all(h is not None and 0 <= h <= len(heads) for h in heads):
        return False
    led = {0}
    for word in range(1, len(heads) + 1):
        way: dict[int, None] = {}
        while word not in led:
            if word in way:  # round in a circle
                return False
            way[word] = None
            word = heads[word - 1] or 0
        led |= way.keys()
    return True
