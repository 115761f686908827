"""Tokens: how byte pairs cut a typed word, merge by merge, and how many tokens that leaves."""

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
from models.languages import LANGUAGES, Transduction, language

FIRST, FIRST_MERGES = "dieren", 12


def show() -> None:
    """The page."""
    names = [name for name in LANGUAGES if not isinstance(language(name), Transduction)]
    name = controls.selectbox("Language", names, names.index(FIRST), key="tokens_language")
    most = _most(name)
    key = f"tokens_merges_{name}"
    merges = controls.slider("Merges", 0, most, min(FIRST_MERGES, most), key=key)
    target = language(name)
    vocabulary = f"bpe:{merges}" if merges else "characters"
    cutter = of_tokens.tokeniser_of(target, vocabulary)
    example = " ".join(target.example())
    typed = controls.text_input("A word", example, key=f"tokens_word_{name}")
    word = cutter.parse(typed)
    st.markdown("#### " + "  ".join(code(token) for token in word))
    st.caption(f"{len(word)} tokens, of {len(cutter.tokens)} in the vocabulary.")
    table = _judged(name, f"bpe:{most}")
    figure = of_tokens.chart(table, len(cutter.tokens))
    whole = of_tokens.tokeniser_of(target, f"bpe:{most}")
    sentence = of_tokens.in_words(target, whole, table)
    st.markdown(text(sentence))
    picture(figure, f"Tokens a symbol by the size of the vocabulary. {text(sentence)}", fills=True)
    spelled = " ".join(typed.split()) or None
    command = lab("languages", name, tokens=vocabulary, word=spelled)
    st.caption(f"The same on a command line: {code(command)}")
    listed = partial(st.dataframe, of_tokens.merges(target, cutter), hide_index=True)
    answer = Answer(table, sentence, {"language": name})
    below("tokens", answer, figure, {"The merges": listed}, of_run=False)


@once(show_spinner="Merging ...")
def _most(name: str) -> int:
    return of_tokens.most_merges(language(name))


@once(show_spinner="Merging at random ...")
def _judged(name: str, vocabulary: str) -> pd.DataFrame:
    target = language(name)
    return of_tokens.judged(target, of_tokens.tokeniser_of(target, vocabulary))
