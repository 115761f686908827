"""A language of the user's own, by the productions of its grammar."""

from __future__ import annotations

import numpy as np

from models.errors import UserError
from models.languages.expressions import check_name
from models.languages.grammars.context_free import ContextFreeLanguage
from models.languages.grammars.notation import read
from models.languages.pairs.syntax_directed import SyntaxDirected, is_of_pairs
from models.languages.vocabulary import BORDER

MOST_LETTERS = 100_000
LONGEST = 25
"""Symbols up to which there must be words of the language, and words outside it."""
DRAWN = 500
"""Pairs that are drawn to see whether a source has two targets."""


def of_grammar(name: str, productions: str) -> ContextFreeLanguage | SyntaxDirected:
    """The language of a grammar; one of pairs, if its symbols say what they give to each side.

    Args:
        name: the language's name; fit for a folder.
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
        grammar = read(productions)
        kind = SyntaxDirected if is_of_pairs(grammar) else ContextFreeLanguage
        language = kind(name, grammar)
    except UserError as error:
        raise UserError(f"the grammar, {error}") from None
    lengths = language.positive_lengths(range(1, LONGEST + 1))
    language.short = max([language.short, *lengths[:1]])
    for label, fault, cure in (
        (True, "makes no word", "give it shorter words"),
        (False, "makes every word", "leave something out"),
    ):
        if not any(language.has(length, label) for length in range(1, LONGEST + 1)):
            raise UserError(f"the grammar {fault} of up to {LONGEST} symbols: {cure}")
    if isinstance(language, SyntaxDirected):
        _check_sources(language, lengths)
    return language


def _check_sources(language: SyntaxDirected, lengths: list[int]) -> None:
    """Raises UserError if a source is empty, or a pair that is drawn has not its target."""
    drawn = language.sample(np.random.default_rng(0), DRAWN, lengths, label=True).words
    for word in language.vocabulary.decoded(drawn[~language.labels(drawn)]):
        source, rival = language.split(word)
        if not source:
            raise UserError(
                f"the grammar, a source of {' '.join(rival)!r} is empty: give each word a symbol "
                f"of the source, as 'a{BORDER}'"
            )
        raise UserError(
            f"the grammar, a source has two targets: {' '.join(source)!r} becomes "
            f"{' '.join(language.target(source))!r} and {' '.join(rival)!r}: change a production, "
            "so that each source has one derivation"
        )
