"""A language that the reader writes as a regular expression: its automaton, and words to judge."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import streamlit as st

from analyses.charts.automaton import automaton_chart, transitions_of
from analyses.close_ups.truth import rule_in_words
from dashboard import controls
from dashboard.drawing import picture
from dashboard.markup import code, text
from models.languages import RegularLanguage, Word, language

SHORT = range(1, 11)
"""Lengths of the words that are shown."""
SHOWN = 6
RULES = (
    "Letters and digits are the symbols. `x|y` is x or y, `x*` any number of x, `x+` at least one, "
    "`x?` at most one, `x{2,4}` two to four, `[xyz]` one of them, `.` any symbol, `x&y` what fits "
    "both."
)


def asked() -> tuple[str, str, str]:
    """Name, expression and further symbols, as the reader wrote them."""
    name = controls.text_input("Its name", "ends-in-ab", key="own_name")
    regex = controls.text_input("Regular expression", "(a|b)*ab", key="own_regex", help=RULES)
    symbols = controls.text_input(
        "Further symbols",
        "",
        key="own_symbols",
        help="Symbols that the expression does not name. A word with one of them is not in it.",
    )
    return name.strip(), regex.strip(), symbols.replace(" ", "")


def draw(name: str, regex: str, symbols: str) -> None:
    """The automaton, words of the language, and words that are almost in it."""
    known = language(name, regex, symbols)
    assert isinstance(known, RegularLanguage)
    if rule := rule_in_words(known):
        st.markdown(f"A word is in it if it **{text(rule)}**.")
    picture(
        automaton_chart(transitions_of(known)),
        f"The automaton of {regex}, with {len(known.delta)} states.",
    )
    left, right = st.columns(2)
    for column, label, title in ((left, True, "In it"), (right, False, "Almost in it")):
        column.markdown(f"**{text(title)}**")
        for word in words_of(known, label):
            column.markdown(code(" ".join(word)))


def words_of(known: RegularLanguage, label: bool) -> list[Word]:
    """A few short words in the language or just outside it, the shortest first."""
    rng = np.random.default_rng(0)
    lengths = [length for length in SHORT if known.has(length, label)]
    if not lengths:
        longest = 2 * len(known.delta)
        lengths = [n for n in range(SHORT.stop, longest) if known.has(n, label)][:1]
    words = known.sample(rng, 8 * SHOWN, lengths, label).words
    if not label:
        with suppress(LookupError):  # no length has a member beside a word outside
            words = known.sample(rng, 8 * SHOWN, lengths, label, hard=True).words
    found = {
        known.vocabulary.decode(ids[:length])
        for ids, length in zip(words.ids, words.lengths, strict=True)
    }
    return sorted(sorted(found, key=lambda word: (len(word), word))[:SHOWN], key=len)
