"""Vectors: a map of the symbols, analogies by choice, how often they are right; and whole words."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.close_ups.grammar import senses as of_forms
from analyses.close_ups.grammar import vectors as of_words
from analyses.close_ups.probe import PROJECTIONS, projection_chart
from analyses.close_ups.sentences import vectors as whole
from dashboard import controls
from dashboard.background import at_once
from dashboard.downloads import downloads, in_the_terminal
from dashboard.drawing import explain_errors, how_to_read, picture
from dashboard.markup import code, text
from dashboard.selection import current_run, once
from models.languages import ContextFreeLanguage
from models.runs.run import Run

MAP, SCORES, SENSES = "a map", "how often right", "one form, two senses"
WHOLE = "whole words"
DIM, WINDOW, SENTENCES = 16, 2, 2000


def show() -> None:
    """The page."""
    st.title("Vectors")
    st.markdown("**Do vectors of words know which words are alike, and does a - b + c work?**")
    run = current_run()
    language = run.language
    views = {MAP: _map, SCORES: _scores, SENSES: _senses}
    shown = controls.segments("Show", [*views, WHOLE], "vectors_of")
    with explain_errors():
        if shown == WHOLE:
            _whole(run)
        elif isinstance(language, ContextFreeLanguage) and of_words.classes_of(language):
            views[shown](run, language)
        else:
            st.info(
                f"{text(language.name)} has no classes of words. Choose a run on a grammar, train "
                "one (nested, linear, or a grammar of your own), or look at whole words."
            )


def _map(run: Run, language: ContextFreeLanguage) -> None:
    """The words in two dimensions, and an analogy that the reader chooses."""
    known = _vectors(run)
    name = controls.selectbox("Vectors", list(known), key="vectors_kind")
    own = known[name]
    figure = of_words.map_chart(of_words.map_of(language, own))
    picture(figure, f"A map of the words by {text(name)}, coloured by their classes.")
    how_to_read(
        "The two directions in which the vectors differ most (PCA); each has length 1. Words of "
        "one colour stand in the same places of a sentence. Skip-gram, CBOW and PPMI read 2,000 "
        "sentences. W_E and W_U are the embedding and the unembedding of the run's model; after a "
        "layer it is the mean of the residual stream at all occurrences of a word."
    )
    st.markdown("**A word is to another as a third is to ...?**")
    words = list(of_words.classes_of(language))
    asked = of_words.analogies_of(language)
    first = asked[-1] if asked else None
    symbols = language.vocabulary.symbols
    chosen = []
    for column, letter in zip(st.columns(3), "abc", strict=True):
        usual = 0 if first is None else words.index(symbols[getattr(first, letter)])
        with column:
            key = f"vectors_{letter}_{language.name}"
            chosen.append(controls.selectbox(letter, words, usual, key=key))
    a, b, c = chosen
    table = of_words.nearest(language, own, a, b, c)
    st.markdown(
        f"{code(a)} is to {code(b)} as {code(c)} is to {code(table['word'].iloc[0])} "
        f"({text(table['classes'].iloc[0])})."
    )
    st.dataframe(table, hide_index=True, height="content")
    st.caption("The words nearest to c + b - a by the cosine, without the three.")


@once(show_spinner="Reading sentences ...")
def _vectors(run: Run) -> dict[str, np.ndarray]:
    return of_words.vectors_of(run, of_words.text_of(run, SENTENCES, 0), DIM, WINDOW, 0)


def _scores(run: Run, language: ContextFreeLanguage) -> None:
    """All kinds of vectors on all analogies."""
    key = f"vectors of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(key, lambda told: of_words.vectors(run, progress=told))
    if table is None:
        return
    said = of_words.in_words(table)
    st.markdown(text(said))
    figure = of_words.chart(table)
    picture(figure, f"Right answers by kind of vectors. {text(said)}")
    how_to_read(
        "The grammar says which answers are right: any word of the class. As usual the three given "
        "words cannot be answers (left: inputs). A word's nearest neighbour is then often its twin "
        "of the same class, so on the right no word of the three classes can. Controls: the word "
        "nearest to c alone, and to b alone, which need no way from a to b; the b of another "
        "analogy; a random word; random vectors; the untrained model. Intervals: Student's 95% "
        "over three texts; the model is one."
    )
    in_the_terminal("vectors")
    downloads("vectors", Answer(table, said, {"run": run.name}), lambda: figure)


def _senses(run: Run, language: ContextFreeLanguage) -> None:
    """From which layer on the senses of a form can be told apart."""
    key = f"senses of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(key, lambda told: of_forms.senses(run, progress=told))
    if table is None:
        return
    said = of_forms.in_words(table)
    st.markdown(text(said))
    figure = of_forms.chart(table)
    picture(figure, text(said))
    how_to_read(
        "A form has two senses if its trees have different nonterminals right above it, such as an "
        "article and a pronoun. The embedding is one for both. A logistic regression is fitted on "
        "half of the occurrences and scored on the others; 50% is chance for two senses. "
        "Intervals: 95% bootstrap over occurrences. Equal beginnings of sentences count once. "
        "Where the words before it leave both senses open, no causal model can tell them apart."
    )
    downloads("senses", Answer(table, said, {"run": run.name}), lambda: figure)


def _whole(run: Run) -> None:
    """What one vector holds of a whole word, and a map of such vectors."""
    key = f"sentences of {run.path}, {run.model_hash()}"
    table: pd.DataFrame | None = at_once(key, lambda told: whole.sentences([run], progress=told))
    if table is None:
        return
    said = whole.in_words(table)
    st.markdown(text(said))
    figure = whole.chart(table)
    picture(figure, f"What linear probes read from one vector a word. {text(said)}")
    how_to_read(
        "One vector stands for the whole word: that of the first token (the class token of an "
        "encoder; before a causal mask it sees nothing), of the last symbol, the mean over the "
        "symbols, one or four learned queries, z* (the last states of a recurrent network), or the "
        "mean of the embeddings (bag). Half of the words fit the probes and teach the queries, a "
        "quarter chooses the layer, a quarter is scored, each word once. In the control task each "
        "length with each last symbol has a random value. Below 0 the score is drawn at 0. "
        "Intervals: 95% bootstrap over words."
    )
    st.markdown("**A map of such vectors**")
    blind = [*whole.QUERIES, *(["first"] if run.config.model.causal else [])]
    left, right = st.columns(2)
    with left:
        names = [name for name in table["pooling"].unique() if name not in blind]
        usual = names.index("last" if "first" in blind else "first")
        pooling = controls.selectbox("Vector", names, usual, key="sentences_vector")
    with right:
        facts = table["fact"].unique().tolist()
        fact = controls.selectbox("Fact", facts, key=f"sentences_fact_{run.language.name}")
    rows, how = _points(run, pooling, fact), next(iter(PROJECTIONS))
    figure_of_map = projection_chart(rows, how, fact)
    picture(figure_of_map, f"Vectors of words ({text(pooling)}), coloured by {text(fact)}.")
    st.caption(f"{len(rows)} words after the last layer. {PROJECTIONS[how]}")
    in_the_terminal("sentences")
    downloads("sentences", Answer(table, said, {"run": run.name}), lambda: figure)


@once(show_spinner="Computing ...")
def _points(run: Run, pooling: str, fact: str) -> pd.DataFrame:
    return whole.map_of(run, pooling, fact)
