"""Break it: take heads, MLPs and edges away, and see what is still right, on a word and on many."""

from __future__ import annotations

import streamlit as st

from analyses.questions.parts.ablation import (
    AS_IT_IS,
    BROKEN,
    Removal,
    edges_of,
    parts_of,
    said_without,
)
from analyses.questions.parts.heads import METHODS
from analyses.questions.parts.patching import said_chart
from dashboard import controls
from dashboard.drawing import chips, explain_errors, picture
from dashboard.markup import text
from dashboard.selection import current_run, model_of, of_model
from dashboard.views.line import word_of
from dashboard.views.question import live
from interp.causal.ablation import Ablation
from models.runs.run import Run

METHOD: dict[Ablation, str] = {
    "mean": "its mean output",
    "zero": "zero",
    "resample": "its output on another word",
}


def show() -> None:
    """The page."""
    run = current_run()
    with model_of(run) as model:
        there, edges = parts_of(model), edges_of(model, run)
    size = f"{run.config.model.n_layers}x{run.config.model.n_heads}"
    place = st.container()
    away = controls.several("Taken away", there, [], f"off_of_{size}")
    if edges:
        away += controls.several("Edges taken away", edges, [], f"edges_off_of_{size}", many=True)
    method = controls.segments(
        "In its place stands", list(METHODS), "broken_by", format_func=METHOD.__getitem__
    )
    with place, explain_errors():
        _on_a_word(run, Removal(tuple(away), method))
    if away:
        live("ablation", off=tuple(away), ablation=method)
    else:
        st.info("Nothing is taken away: choose a head, an MLP or an edge.")


_said = of_model(said_without)


def _on_a_word(run: Run, removal: Removal) -> None:
    """The word with the places in colour at which what may follow changes, and the verdict."""
    word = word_of(run)
    table = _said(run, removal, word)
    allowed = table.pivot(index=["position", "token"], columns="run", values="allowed")
    changed = (allowed[AS_IT_IS] != allowed[BROKEN]).groupby("position").any()
    chips(word, tuple(place for place in range(len(word)) if changed[place + 1]))
    needed = run.objective.needed(word)
    before, after = (
        "in the language" if allowed.loc[needed, name].all() else "not in the language"
        for name in (AS_IT_IS, BROKEN)
    )
    st.markdown(f"As it is, the model says: **{text(before)}**; broken, **{text(after)}**.")
    picture(said_chart(table), "What may follow each prefix, as it is and broken.")
    st.caption("In colour: after this symbol the broken model allows other symbols than before.")
