"""Break it: take heads, MLPs and edges away, and see what is still right, on a word and on many."""

from __future__ import annotations

import altair as alt
import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.theme import QUIET, TRAINED, figures
from analyses.close_ups.broken import (
    AS_IT_IS,
    BROKEN,
    RANDOM,
    TESTED,
    Removal,
    edges_of,
    parts_of,
    refusal,
    right_without,
    said_without,
    sentence,
)
from analyses.questions.heads import METHODS
from analyses.questions.patching import said_chart
from analyses.words import given, member
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import explain_errors, how_to_read, picture
from dashboard.markup import text
from dashboard.selection import current_run, model_of, once, word_input
from interp.causal.ablation import Ablation
from models.languages import Word
from models.runs.run import Run

METHOD: dict[Ablation, str] = {
    "mean": "its mean output",
    "zero": "zero",
    "resample": "its output on another word",
}


def show() -> None:
    """The page."""
    st.title("Break it")
    st.markdown("**Which parts can be taken away, and what goes wrong without them?**")
    run = current_run()
    if reason := refusal(run):
        st.info(text(reason))
        return
    with model_of(run) as model:
        there, edges = parts_of(model), edges_of(model, run)
    size = f"{run.config.model.n_layers}x{run.config.model.n_heads}"
    away = controls.several("Taken away", there, [], f"off_of_{size}")
    if edges:
        away += controls.many("Edges taken away", edges, [], f"edges_off_of_{size}")
    method = controls.segments(
        "In its place stands", list(METHODS), "broken_by", format_func=METHOD.__getitem__
    )
    removal = Removal(tuple(away), method)
    table = _right(run, removal)
    st.markdown(f"**{text(sentence(table))}**")
    figure = chart(table)
    picture(figure, f"Share of right verdicts with and without the parts. {sentence(table)}")
    how_to_read(
        f"Up to {TESTED} fresh words of the training window were judged, each once. Blue: the "
        "share of right verdicts, of members and of other words, with its 95% interval (Wilson). "
        "Grey: the same without as many others of the same kinds, a point for each random set. "
        "Where blue stands among the grey, what was chosen matters no more than others."
    )
    st.header("On a word", divider="gray")
    with explain_errors():
        _on_a_word(run, removal)
    asked = {"run": run.name, "step": run.step, "off": away, "ablation": method}
    downloads("break", Answer(table, sentence(table), asked), lambda: figure)


@once(show_spinner="Computing ...")
def _right(run: Run, removal: Removal) -> pd.DataFrame:
    with model_of(run) as model:
        return right_without(model, run, removal)


@once(show_spinner="Computing ...")
def _said(run: Run, removal: Removal, word: Word) -> pd.DataFrame:
    with model_of(run) as model:
        return said_without(model, run, removal, word)


def _on_a_word(run: Run, removal: Removal) -> None:
    """The word with the places in colour at which what may follow changes, and the verdict."""
    word = given(run.language, word_input(run, member(run, 4)), ())
    said = _said(run, removal, word)
    allowed = said.pivot(index=["position", "token"], columns="run", values="allowed")
    changed = (allowed[AS_IT_IS] != allowed[BROKEN]).groupby("position").any()
    parts = (
        f":orange-background[**{text(symbol)}**]" if changed[place] else text(symbol)
        for place, symbol in enumerate(word, 1)
    )
    st.markdown("#### " + " ".join(parts))
    needed = run.objective.needed(word)
    before, after = (
        "in the language" if allowed.loc[needed, name].all() else "not in the language"
        for name in (AS_IT_IS, BROKEN)
    )
    st.markdown(f"As it is, the model says: **{text(before)}**; broken, **{text(after)}**.")
    st.caption("In colour: after this symbol the broken model allows other symbols than before.")
    picture(said_chart(said), "What may follow each prefix, as it is and broken.")


def chart(table: pd.DataFrame) -> ChartType:
    """Right verdicts as it is, broken, and without random parts; members above, others below.

    Args:
        table: of ``analyses.close_ups.broken.right_without``.
    """
    order = [AS_IT_IS, BROKEN, RANDOM]
    base = alt.Chart(table).encode(
        x=alt.X("right:Q", title="right verdicts").scale(domain=[0, 1]).axis(format="%"),
        y=alt.Y("of:N", sort=order, title=None),
        tooltip=["words", "of", "parts", *figures("right", "low", "high"), "count"],
    )
    own = base.transform_filter(alt.datum.of != RANDOM)
    interval = own.mark_rule(color=TRAINED, strokeWidth=3).encode(x="low:Q", x2="high:Q")
    points = own.mark_point(color=TRAINED, filled=True, size=90, opacity=1)
    random = base.transform_filter(alt.datum.of == RANDOM).mark_tick(color=QUIET, thickness=2)
    return (
        alt.layer(random, interval, points)
        .properties(width=300, height=90)
        .facet(row=alt.Row("words:N", title=None, sort=["members", "others"]))
    )
