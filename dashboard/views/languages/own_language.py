"""A language of the reader's own, by a regular expression or a grammar, with words to judge."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import streamlit as st

from analyses.charts.automaton import automaton_chart, transitions_of
from analyses.lectures.truth import rule_in_words
from dashboard import controls
from dashboard.drawing import picture
from dashboard.markup import code, text
from models.config import TrainConfig
from models.languages import ContextFreeLanguage, FormalLanguage, RegularLanguage, Word, language
from models.languages.expressions import MOST_STATES

SHORT = range(1, 11)
"""Lengths of the words that are shown."""
LONGEST = 2 * MOST_STATES
"""Where no word is short, the shortest one is shown; an automaton has one of this length."""
SHOWN = 6
RULES = (
    "Letters and digits are the symbols. `x|y` is x or y, `x*` any number of x, `x+` at least one, "
    "`x?` at most one, `x{2,4}` two to four, `[xyz]` one of them, `.` any symbol, `x&y` what fits "
    "both."
)
FIRST = """S -> NP VP
NP -> 'the' N [0.7] | 'the' N 'that' NP V [0.3]
VP -> 'sleeps' | V NP
N -> 'cat' | 'dog'
V -> 'sees' | 'hears'"""
PRODUCTIONS = (
    "A line for each nonterminal, the first for whole words. Symbols of the language stand in "
    "quotes. `|` parts several right sides, and a number in brackets says how likely one is."
)


def _expression() -> list[str]:
    """A regular expression, as the words of `lab train` that ask for it."""
    name = controls.text_input("Its name", "ends-in-ab", key="own_name")
    regex = controls.text_input("Regular expression", "(a|b)*ab", key="own_regex", help=RULES)
    symbols = controls.text_input(
        "Further symbols",
        "",
        key="own_symbols",
        help="Symbols that the expression does not name. A word with one of them is not in it.",
    ).replace(" ", "")
    further = [f"--symbols={symbols}"] if symbols else []
    return [name.strip(), f"--regex={regex.strip()}", *further]


def _grammar() -> list[str]:
    """The productions of a grammar, as the words of `lab train` that ask for it."""
    name = controls.text_input("Its name", "cats", key="own_grammar_name")
    productions = controls.text_area(
        "Productions", FIRST, key="own_grammar", height=200, help=PRODUCTIONS
    )
    return [name.strip(), f"--grammar={productions.strip()}"]


KINDS = {"a regular expression of mine": _expression, "a grammar of mine": _grammar}
"""Forms in which a reader may write a language, by their name among the languages."""


def draw(config: TrainConfig) -> None:
    """The language in words, examples of it, and words that are almost in it."""
    target = language(config.language, config.regex, config.symbols, config.grammar)
    if rule := rule_in_words(target):
        st.markdown(f"A word is in it if it **{text(rule)}**.")
    if isinstance(target, RegularLanguage):
        picture(
            automaton_chart(transitions_of(target)),
            f"The automaton of {config.regex}, with {len(target.delta)} states.",
        )
    left, right = st.columns(2)
    for column, label, title in ((left, True, "In it"), (right, False, "Almost in it")):
        column.markdown(f"**{text(title)}**")
        for word in _words_of(target, label):
            column.markdown(code(" ".join(word)))
    if isinstance(target, ContextFreeLanguage):
        word = _words_of(target, True)[-1]
        st.caption(f"How the grammar makes {code(' '.join(word))}:")
        st.code(str(next(target.trees(word))), language=None, wrap_lines=True)


def _words_of(target: FormalLanguage, label: bool) -> list[Word]:
    """A few short words in the language or just outside it, the shortest first."""
    rng = np.random.default_rng(0)
    lengths = [length for length in SHORT if target.has(length, label)]
    if not lengths:
        lengths = [n for n in range(SHORT.stop, LONGEST) if target.has(n, label)][:1]
    words = target.sample(rng, 8 * SHOWN, lengths, label).words
    if not label:
        with suppress(LookupError):  # no length has a member beside a word outside
            words = target.sample(rng, 8 * SHOWN, lengths, label, hard=True).words
    pool = {
        target.vocabulary.decode(ids[:length])
        for ids, length in zip(words.ids, words.lengths, strict=True)
    }
    return sorted(sorted(pool, key=lambda word: (len(word), word))[:SHOWN], key=len)
