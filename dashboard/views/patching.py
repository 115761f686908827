"""Patching: where the difference between a typed word and its counterfactuals is carried."""

from __future__ import annotations

import streamlit as st

from analyses.patching import Options, chart
from analyses.words import member
from dashboard.shared import asked, chips, current_run, downloads, heading, picture, word_input


def show() -> None:
    """The page."""
    heading("Activation patching", "patching")
    run = current_run()
    default = member(run, Options().n)
    text = word_input(run, default, "Clean word")
    direction = st.segmented_control(
        "Direction",
        ["restore", "break"],
        default="restore",
        required=True,
        key="direction",
        bind="query-params",
        format_func={
            "restore": "clean into corrupted (restore)",
            "break": "corrupted into clean (break)",
        }.__getitem__,
    )
    own = {} if text == " ".join(default) else {"word": text}
    result = asked(run, "patching", direction=direction or "restore", **own)
    found = result.findings
    chips(tuple(found["word"]), tuple(p - 1 for p in found["changed_positions"]))
    st.caption(
        f"{'In' if found['in_language'] else 'Not in'} the language. In colour the positions where "
        f"one of {len(found['counterfactuals'])} counterfactuals differs, for example "
        f"`{' '.join(found['counterfactuals'][0])}`."
    )
    st.markdown(found["summary"])
    figure = chart(result)
    picture(figure, f"Patching effects by site and position. {found['summary']}")
    st.caption(
        "1: this activation alone makes the run behave as the one it was taken from; 0: it changes "
        "nothing. Means over the counterfactuals; the metric is END's logit where the "
        "verdict is read (at the last symbol; of an encoder at BOS). "
        "The untrained model's effects are in the table."
    )
    downloads("patching", result, figure)
