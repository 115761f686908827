"""Type a word: what may follow each of its symbols, and is the word in the language?"""

from __future__ import annotations

import altair as alt
import pandas as pd
import streamlit as st
import torch
from altair.typing import ChartType

from analyses.charts.marks import heat
from analyses.charts.theme import figures, named
from analyses.lectures.truth import rule_in_words, variables_chart, variables_of
from analyses.questions.parts.patching import next_tokens
from analyses.words import member, near_miss
from dashboard import controls
from dashboard.drawing import chips, explain_errors, picture, reading, says
from dashboard.markup import code, text
from dashboard.selection import current_run, model_of, suggested, truth_of, word_input, word_key
from dashboard.views.explain.explanations import pick
from dashboard.views.look_inside import looks
from models.languages import BORDER, FormalLanguage, Word
from models.runs.run import Run
from models.training.evaluation import prefix_logits

LONGEST = 60
"""Symbols of a word whose truth is drawn."""
PRESSED = "near_misses"
"""The number of near misses that the reader asked for."""


def show() -> None:
    """The page."""
    run = current_run()
    with explain_errors(), st.container(horizontal=True):
        if controls.button("A word of the language"):
            st.session_state[word_key(run)] = " ".join(member(run, 4))
        if controls.button("A near miss"):
            st.session_state[PRESSED] = pressed = st.session_state.get(PRESSED, 0) + 1
            st.session_state[word_key(run)] = " ".join(near_miss(run, 4, pressed))
    left, right = st.columns(2)
    typed = word_input(run, suggested(run, 4), at=left)
    with right:
        pick(run, typed)
    word = run.language.vocabulary.parse(typed)
    table = _follow(run, word)
    allowed = table.set_index(["position", "token"])["allowed"]
    needed = run.objective.needed(word)
    accepted = bool(needed) and bool(allowed.loc[needed].all())
    _verdict(run, word, accepted)
    looks.show(run, word)
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
    if run.config.model.output != "sigmoid":
        reading("try it (2)")
    else:
        reading("try it")


def _verdict(run: Run, word: Word, accepted: bool) -> None:
    """The verdict, the truth beside it, and the positions that decide."""
    truth = truth_of(run.language, word)
    verdict = "in the language" if accepted else "not in the language"
    if truth is None:
        st.info(f"The model says: **{verdict}**. The truth of this line is not known.")
        return
    if truth == accepted:
        st.success(f"The model says: **{verdict}**. That is right.", icon=":material/check:")
    else:
        st.error(f"The model says: **{verdict}**. That is wrong.", icon=":material/close:")
    if not isinstance(run.language, FormalLanguage):  # a corpus knows the labels of its lines alone
        return
    on_tour = "tour" in st.query_params  # on which the reader is to find the rule
    with st.expander("The truth: the rule, and what decides", expanded=not on_tour):
        _explain(run.language, word)


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
