"""The languages by name. A new member of a family is one line here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from automata.fa.dfa import DFA

from models.errors import UserError
from models.languages.corpus import read_lines
from models.languages.counting import CountingLanguage
from models.languages.language import Language
from models.languages.regular import RegularLanguage
from models.languages.vocabulary import Word

DIEREN_FILE = Path(__file__).with_name("dieren.tsv")
DIEREN_RULE = ("leeuw", "olifant", "leeuw")


def _dieren() -> RegularLanguage:
    """Lines that contain leeuw ... olifant ... leeuw, in this order and with gaps."""
    symbols = sorted({symbol for _, word in printed_lines() for symbol in word})
    rule = DFA.from_subsequence(set(symbols), DIEREN_RULE)  # type: ignore[arg-type]  # iterates symbols
    return RegularLanguage("dieren", rule, symbols, near_miss="shuffle", supervision="last")


def printed_lines() -> list[tuple[str, Word]]:
    """The 26 Dutch lines as the lecture prints them, with their group, A or B."""
    return list(zip(*read_lines(DIEREN_FILE), strict=True))


LANGUAGES: dict[str, Callable[[], Language]] = {
    "an": lambda: RegularLanguage.from_regex("an", "aa*", "ab"),
    "anbn": lambda: CountingLanguage("anbn", "ab"),
    "anbncn": lambda: CountingLanguage("anbncn", "abc"),
    "dieren": _dieren,
}


@cache
def language(name: str) -> Language:
    """The registered language of this name. Raises UserError for an unknown one."""
    if name not in LANGUAGES:
        raise UserError(f"unknown language {name!r}: choose one of {', '.join(LANGUAGES)}")
    return LANGUAGES[name]()
