"""Type a word: what may follow each of its symbols, and is the word in the language?"""

from __future__ import annotations

from functools import partial

import altair as alt
import pandas as pd
import streamlit as st
import torch
from altair.typing import ChartType

from analyses.charts.marks import heat
from analyses.charts.theme import figures, named
from analyses.lectures.truth import rule_in_words, variables_chart, variables_of
from analyses.questions.parts.patching import next_tokens
from dashboard.drawing import Parts, chips, picture, reading, says
from dashboard.markup import code, text
from dashboard.selection import current_run, model_of
from dashboard.views.line import line_of
from dashboard.views.look_inside import looks
from models.languages import BORDER, FormalLanguage, Word
from models.runs.run import Run
from models.training.evaluation import prefix_logits

LONGEST = 60
"""Symbols of a word whose truth is drawn."""


def show() -> None:
    """The page."""
    run = current_run()
    word = run.language.vocabulary.parse(line_of(run))
    table = _follow(run, word)
    parts: Parts = {"What may follow": partial(_next, run, table)}
    if isinstance(run.language, FormalLanguage):  # a corpus knows the labels of its lines alone
        parts["The truth: the rule, and what decides"] = partial(_explain, run.language, word)
    looks.show(run, word, parts)


def _next(run: Run, table: pd.DataFrame) -> None:
    """The next tokens after each prefix."""
    if table.empty:
        st.caption(
            f"The model speaks of targets alone: type a source, the border {code(BORDER)} ..."
        )
        return
    if run.objective.verdict_alone:
        st.caption(says("try it: verdicts alone"))
    caption = "Probability of every next token after every prefix of the word."
    if run.objective.hides:
        caption = "Probability of every symbol in the place of each symbol of the word."
    picture(_chart(table, run.objective.asks), caption)
    reading("try it: a distribution" if run.config.model.output != "sigmoid" else "try it")


def _explain(language: FormalLanguage, word: Word) -> None:
    """The rule, the symbols that decide, and what a reader must keep."""
    if rule := rule_in_words(language):
        st.markdown(f"The rule: a word is in the language if it **{text(rule)}**.")
    rationale = language.rationale(word)
    if rationale and len(word) <= LONGEST:
        chips(word, rationale)
        st.caption(says("try it: symbols that decide"))
    if word and len(word) <= LONGEST:
        table = variables_of(language, word)
        picture(variables_chart(table), "What a reader must keep after each symbol.")
        st.caption(says("try it: variables"))


@torch.no_grad()
def _follow(run: Run, word: Word) -> pd.DataFrame:
    """One row per prefix and token: probability, whether the model allows it, and the truth."""
    with model_of(run) as model:
        table = next_tokens(run, word, {"the model": prefix_logits(model, word)})
    if isinstance(run.language, FormalLanguage):
        right = [run.objective.true_tokens(run.language, word, at) for at in range(len(word) + 1)]
        pairs = zip(table["position"], table["token"], strict=True)
        table["truth"] = [token in right[at] for at, token in pairs]
    return table[table["position"].isin(run.objective.taught_after(word))]


def _chart(table: pd.DataFrame, asks: str = "may follow") -> ChartType:
    """A matrix: prefixes across, next tokens down; or symbols, and what may stand there."""
    places = table["place"].unique().tolist()
    at = "after" if "follow" in asks else "in the place of"
    return heat(
        table,
        named(alt.X, "place", places, at),
        alt.Y("token:N", sort=None, title=asks),
        ["place", "token", *figures("probability"), "allowed"],
        alt.Color("probability:Q").scale(domain=[0, 1], scheme="blues"),
        framed="datum.truth != datum.allowed" if "truth" in table else None,
    ).properties(width=max(240, 26 * len(places)), height=30 * table["token"].nunique())
