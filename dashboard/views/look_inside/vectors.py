"""Vectors: a map of the symbols, analogies by choice, how often they are right; and whole words."""

from __future__ import annotations

import numpy as np
import streamlit as st

from analyses.needs import lack
from analyses.questions.inside import vectors as of_words
from dashboard import controls
from dashboard.drawing import picture, reading
from dashboard.markup import code, text
from dashboard.selection import current_run, once
from dashboard.views.question import View, live, one_of, related
from models.languages import ContextFreeLanguage
from models.runs.run import Run

DIM, WINDOW, SENTENCES = 16, 2, 2000


def show() -> None:
    """The page."""
    views: dict[str, View] = {"whole words": _whole_words}
    if not lack(current_run(), ["classes"]):
        views = {"a map": _map, "how often right": "vectors", "two senses": "senses", **views}
    one_of(views, "vectors_of")


def _whole_words(run: Run) -> None:
    """One vector for a whole word; while it is computed, where a probe reads the main variable."""
    if live("sentences") is None:
        related("probing", run)


def _map(run: Run) -> None:
    """The words in two dimensions, and an analogy that the reader chooses."""
    language = run.language
    assert isinstance(language, ContextFreeLanguage)
    by_name = _vectors(run)
    name = controls.selectbox("Vectors", list(by_name), key="vectors_kind")
    matrix = by_name[name]
    figure = of_words.map_chart(of_words.map_of(language, matrix))
    picture(figure, f"A map of the words by {text(name)}, coloured by their classes.")
    reading("vectors: map")
    st.markdown("**A word is to another as a third is to ...?**")
    words = list(of_words.classes_of(language))
    first = next(reversed(of_words.analogies_of(language)), None)
    symbols = language.vocabulary.symbols
    chosen = []
    for column, letter in zip(st.columns(3), "abc", strict=True):
        usual = 0 if first is None else words.index(symbols[getattr(first, letter)])
        key = f"vectors_{letter}_{language.name}"
        chosen.append(controls.selectbox(letter, words, usual, key=key, at=column))
    a, b, c = chosen
    table = of_words.nearest(language, matrix, a, b, c)
    st.markdown(
        f"{code(a)} is to {code(b)} as {code(c)} is to {code(table['word'].iloc[0])} "
        f"({text(table['classes'].iloc[0])})."
    )
    st.dataframe(table, hide_index=True, height="content")
    st.caption("The words nearest to c + b - a by the cosine, without the three.")


@once(show_spinner="Reading sentences ...")
def _vectors(run: Run) -> dict[str, np.ndarray]:
    return of_words.vectors_of(run, of_words.text_of(run, SENTENCES, 0), DIM, WINDOW, 0)
