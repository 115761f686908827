"""A language of the user's own, by the productions of its grammar."""

from __future__ import annotations

from models.errors import UserError
from models.languages.expressions import check_name
from models.languages.grammars.context_free import ContextFreeLanguage
from models.languages.grammars.reading import read

MOST_LETTERS = 100_000
LONGEST = 25
"""Symbols up to which there must be words of the language, and words outside it."""


def of_grammar(name: str, productions: str) -> ContextFreeLanguage:
    """The language of a grammar.

    Args:
        name: what it is called; fit for a folder.
        productions: see ``reading.read``.

    Raises:
        UserError: they cannot be read, or make no language that can be trained.
    """
    check_name(name)
    if len(productions) > MOST_LETTERS:
        raise UserError(
            f"the grammar has {len(productions):,} letters: use at most {MOST_LETTERS:,}"
        )
    try:
        language = ContextFreeLanguage(name, read(productions))
    except UserError as error:
        raise UserError(f"the grammar, {error}") from None
    for label, fault, cure in (
        (True, "makes no word", "give it shorter words"),
        (False, "makes every word", "leave something out"),
    ):
        if not any(language.has(length, label) for length in range(1, LONGEST + 1)):
            raise UserError(f"the grammar {fault} of up to {LONGEST} symbols: {cure}")
    return language
