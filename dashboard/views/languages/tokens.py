"""Tokens: how byte pairs cut a typed word, merge by merge, and how many tokens that leaves.

The merges are learned on a language, or on a text that the reader types.
"""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.lectures import tokens as of_tokens
from dashboard import controls
from dashboard.drawing import picture
from dashboard.markup import code, text
from dashboard.selection import once
from dashboard.views.question import below
from models.errors import lab
from models.languages import LANGUAGES, Language, Transduction, language
from models.languages.tokens.tokeniser import Text

FIRST, FIRST_MERGES = "dieren", 12
MINE, FIRST_TEXT = "a text of mine", "Peter Piper picked a peck of pickled peppers"


def show() -> None:
    """The page."""
    names = [name for name in LANGUAGES if not isinstance(language(name), Transduction)]
    choices, first = [MINE, *names], 1 + names.index(FIRST)
    name = controls.selectbox("Language", choices, first, key="tokens_language")
    line = controls.text_input("Your text", FIRST_TEXT, key="tokens_text") if name == MINE else ""
    source, of = _source(name, line), name.replace(" ", "-")
    most = _most(name, line)
    key = f"tokens_merges_{of}"
    merges = controls.slider("Merges", 0, most, min(FIRST_MERGES, most), key=key)
    vocabulary = f"bpe:{merges}" if merges else "characters"
    cutter = of_tokens.tokeniser_of(source, vocabulary)
    example = " ".join(source.example())
    # The box is empty beside a text: words of an earlier text may have letters that this one lacks.
    before = "" if line else example
    typed = controls.text_input("A word", before, key=f"tokens_word_{of}", placeholder=example)
    word = cutter.parse(typed or example)
    st.markdown("#### " + "  ".join(code(token) for token in word))
    st.caption(f"{len(word)} tokens, of {len(cutter.tokens)} in the vocabulary.")
    table = _judged(name, line, f"bpe:{most}")
    figure = of_tokens.chart(table, len(cutter.tokens))
    whole = of_tokens.tokeniser_of(source, f"bpe:{most}")
    sentence = of_tokens.in_words(source, whole, table)
    st.markdown(text(sentence))
    picture(figure, f"Tokens a symbol by the size of the vocabulary. {text(sentence)}", fills=True)
    asked = {"text": line} if line else {}
    spelled = " ".join(typed.split()) or None
    command = lab("languages", *([] if line else [name]), **asked, tokens=vocabulary, word=spelled)
    st.caption(f"The same on a command line: {code(command)}")
    listed = partial(st.dataframe, of_tokens.merges(source, cutter), hide_index=True)
    answer = Answer(table, sentence, {"language": name, **asked})
    below("tokens", answer, figure, {"The merges": listed}, of_run=False)


def _source(name: str, line: str) -> Language | Text:
    return Text(line) if name == MINE else language(name)


@once(show_spinner="Merging ...")
def _most(name: str, line: str) -> int:
    return of_tokens.most_merges(_source(name, line))


@once(show_spinner="Merging at random ...")
def _judged(name: str, line: str, vocabulary: str) -> pd.DataFrame:
    source = _source(name, line)
    return of_tokens.judged(source, of_tokens.tokeniser_of(source, vocabulary))
