"""Discovery: the automaton behind the network's verdicts, and its rule in words."""

from __future__ import annotations

import streamlit as st

from analyses.discovery import chart
from dashboard.shared import current_run, downloads, heading, kept_or_computed, picture, share


def show() -> None:
    """The page."""
    heading("Discovery", "discovery")
    run = current_run()
    result = kept_or_computed(run, "discovery")
    if result is None:
        return
    found = result.findings
    st.markdown(f"#### {found['headline']}")
    st.markdown(found["evidence"])
    facts = {
        "States": str(found["n_states"]),
        "Agreement with the network": share(found["agreement"]),
        "With the truth, in the window": share(found["agreement_truth"]),
        "With the truth, beyond it": share(found["agreement_truth_beyond"]),
    }
    for column, (label, value) in zip(st.columns(4), facts.items(), strict=True):
        column.metric(label, value)
    figure = chart(result)
    picture(figure, f"The extracted automaton. {found['summary']}")
    st.caption(
        "State 0 is the start; a ring marks an accepting state. Learned by asking the network "
        f"({found['queries']} words, {found['seconds']} s), never from the language. The "
        f"untrained model's automaton has {found['untrained']['n_states']} states and agrees with "
        f"the truth on {share(found['untrained']['agreement_truth'])} of the words."
    )
    if found["regex"]:
        st.code(found["regex"], language=None, wrap_lines=True)
    downloads("discovery", result, figure)
