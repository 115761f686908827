"""Heads: what each is needed for, what it writes, and where it looks on a typed word."""

from __future__ import annotations

import streamlit as st
import torch

from analyses.heads import chart, pattern_chart, refusal
from analyses.words import member
from dashboard.shared import (
    current_run,
    downloads,
    heading,
    kept_or_computed,
    model_of,
    picture,
    word_input,
)
from interp.attention import patterns
from models.errors import UserError

LONGEST = 40


def show() -> None:
    """The page."""
    heading("Heads", "heads")
    run = current_run()
    if reason := refusal(run):
        st.info(reason)
        return
    result = kept_or_computed(run, "heads")
    if result is not None:
        st.markdown(result.findings["summary"])
        figure = chart(result)
        picture(figure, f"Accuracy lost per ablated head. {result.findings['summary']}")
        st.caption(
            "Left: a head's output is replaced by its mean over the words; the bar is the accuracy "
            "of the verdict that is lost. Right: what each part adds to END's logit at the last "
            'symbol, the final norm held fixed; positive speaks for "in". Lines are 95% intervals '
            "over words."
        )
        downloads("heads", result, figure)
    st.subheader("Attention on a word")
    word = run.language.vocabulary.parse(word_input(run, member(run, 4)))
    if len(word) > LONGEST:
        raise UserError(f"the word has {len(word)} symbols: attention is drawn for up to {LONGEST}")
    ids = run.language.vocabulary.words([word]).tokens
    with model_of(run) as model:
        table = patterns(model, torch.as_tensor(ids))
    picture(
        pattern_chart(table, run.language.vocabulary, ids[0].tolist()),
        "Attention of every head: query down, key across.",
    )
    st.caption("Where a head looks is not yet what it does: compare the ablation above.")
