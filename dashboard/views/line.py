"""The line in hand: it stands in the bar above each page that looks at one, and goes along."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import streamlit as st

from analyses.knowledge import knowledge
from analyses.words import given, member, near_miss
from dashboard import controls
from dashboard.markup import code, text
from dashboard.selection import WIDTH, current_run, has_second, named, of_model, once, suggested
from models.base import LanguageModel
from models.errors import UserError
from models.languages import DUTCH, Language, Word, printed_lines
from models.runs.run import Run
from models.training.evaluation import predict

LONGEST = 40
"""Symbols of a line of which attention or steps are drawn."""
_SIZES = range(2, 7)
"""Sizes of the members to pick from, and of the near misses."""
_FIRST = "first_lines"
"""The line of each language that was shown before the reader chose one."""


def line_key(run: Run) -> str:
    """The key of the typed line. Each language has its own, because languages differ in symbols."""
    return f"word_{run.language.name}"


def choose(first: Callable[[Run], Word]) -> None:
    """A field to type the line, which becomes part of the page's link; the language's own lines to
    pick from; and the model's verdict beside the truth.

    Args:
        first: the line that the page takes by itself, before the reader chooses one.
    """
    run, other, shown = current_run(), None, st.session_state.setdefault(_FIRST, {})
    key, line = line_key(run), " ".join(first(run))
    if key in st.session_state and st.session_state[key] == shown.get(key) != line:
        del st.session_state[key]  # another page's own line
    if has_second():
        with controls.beside():
            other = current_run()
        shown[line_key(other)] = " ".join(first(other))
    shown[key] = line
    with st.container(horizontal=True, vertical_alignment="bottom"):
        symbols = f"Symbols: {code(' '.join(run.language.vocabulary.symbols))}"
        controls.text_input("Line", line, key=key, help=symbols, width="stretch")
        _pick(run)
    with st.container(horizontal=True):
        _verdict(run, named(run) if other else "The model")
        if other and other.steps():
            of = "" if line_key(other) == key else f"Of {line_of(other)}: "
            _verdict(other, of + named(other))


def line_of(run: Run) -> str:
    """The line in hand, spelled as the language does: a reader may write capitals and commas."""
    symbols = run.language.vocabulary.symbols
    small = {symbol.lower(): symbol for symbol in symbols}
    key = line_key(run)
    typed = st.session_state.get(key, st.session_state[_FIRST][key])
    parts = ((part, small.get(part.strip(",.;").lower(), part)) for part in typed.split())
    return " ".join(part if part in symbols else spelled for part, spelled in parts)


def word_of(run: Run, drawn: str = "") -> Word:
    """The symbols of the line in hand.

    Args:
        drawn: the things in a picture that is legible for short lines alone, and their verb, for
            the message: "attention is".

    Raises:
        UserError: it is empty, too long for the picture, or holds an unknown symbol.
    """
    word = given(run.language, line_of(run), ())
    if drawn and len(word) > LONGEST:
        raise UserError(f"the word has {len(word)} symbols: {drawn} drawn for up to {LONGEST}")
    return word


def _truth_of(language: Language, word: Word) -> bool | None:
    """Is the word in the language? None where nobody knows: a corpus knows only its own lines."""
    with suppress(UserError):
        return language.contains(word)
    return None


@of_model
def _accepts(model: LanguageModel, run: Run, word: Word) -> bool:
    return predict(model, word, run.objective)[1]


@of_model
def _knows(model: LanguageModel, run: Run) -> bool:
    lengths = run.language.lengths(run.config.max_n)
    return knowledge(model, run.language, run.objective, lengths).is_shown


def _verdict(run: Run, speaker: str) -> None:
    """A model's verdict on the line, and whether it is right; of a line that it cannot read the
    page itself says so."""
    with suppress(UserError):
        word = run.language.vocabulary.parse(line_of(run))
        truth, accepted = _truth_of(run.language, word), _accepts(run, word)
        says = f"{text(speaker)} says: **{'in' if accepted else 'not in'} the language**."
        if truth is None:
            st.badge(f"{says} The truth is not known.", color="gray")
            return
        remark = f"That is {'right' if truth == accepted else 'wrong'}."
        if _knows(run):
            st.badge(f"{says} {remark}", color="green" if truth == accepted else "red")
        else:
            st.badge(f"{says} {remark} But this network does not know its language.", color="gray")


def _pick(run: Run) -> None:
    """A select of the language's own lines; the choice is typed into the field beside it."""
    lines, typed = _lines(run), line_of(run)
    if not lines:
        return
    key = f"line_of_{line_key(run)}"
    st.session_state[key] = typed if typed in lines else None

    def choose_it() -> None:
        if chosen := st.session_state[key]:
            st.session_state[line_key(run)] = chosen

    st.selectbox(
        "or pick one",
        list(lines),
        key=key,
        on_change=choose_it,
        format_func=lambda line: f"{lines[line]}: {line}",
        placeholder=f"a line of {run.language.name}",
        width=WIDTH,
    )


@once(show_spinner=False)
def _lines(run: Run) -> dict[str, str]:
    """Words to pick from, with what each of them is. For the Dutch lines these are all of them, for
    other languages short members and near misses."""
    language = run.language
    if language.name in DUTCH:
        words = {word: f"{group}, " for group, word in printed_lines()}
    else:
        both = (suggested(run, n, draw) for draw in (member, near_miss) for n in _SIZES)
        words = dict.fromkeys(filter(None, both), "")
    kinds = {True: "in", False: "not in", None: "not known"}
    return {" ".join(word): words[word] + kinds[_truth_of(language, word)] for word in words}
