"""LIME and SHAP on a typed word, beside the rationale and the exact Shapley values."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.attribution import Options, chart
from analyses.words import member, near_miss
from dashboard.shared import asked, chips, current_run, downloads, heading, picture, word_input


def show() -> None:
    """The page."""
    heading("LIME and SHAP", "attribution")
    run = current_run()
    choose = member if run.config.supervision == "last" else near_miss
    default = choose(run, Options().n)
    text = word_input(run, default)
    own = {} if text == " ".join(default) else {"word": text}
    result = asked(run, "attribution", **own)
    found = result.findings
    chips(tuple(found["word"]), tuple(found["rationale"] or ()))
    truth = {True: "it is", False: "it is not", None: "not known"}[found["in_language"]]
    st.caption(
        f'Probability of "in the language": {found["probability"]:.3f} (truth: {truth}). '
        f"In colour the rationale; its rule: {found['rationale_rule']}."
    )
    st.markdown(found["summary"])
    figure = chart(result)
    picture(figure, f"Attribution per symbol and method. {found['summary']}")
    st.caption(
        "Hidden symbols are replaced (here: drawn evenly from all symbols), never deleted, so the "
        'length stays. "language" are the exact Shapley values of the true membership: what a '
        'perfect explainer of a perfect model would say. "position" and "random" are controls.'
    )
    st.subheader("How right was each?")
    scores = pd.DataFrame(found["agreement"])
    scores[scores.columns[1:4]] = scores[scores.columns[1:4]].astype(float)
    st.dataframe(
        scores.style.format("{:.3f}", subset=scores.columns[1:4], na_rep="-").format(
            "{:.2f}", subset=["seconds"]
        ),
        hide_index=True,
    )
    downloads("attribution", result, figure)
