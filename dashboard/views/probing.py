"""Probing: which hidden variable can be read where."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from analyses.probing import chart
from dashboard.shared import current_run, downloads, heading, kept_or_computed, picture


def show() -> None:
    """The page."""
    heading("Probing", "probing")
    run = current_run()
    result = kept_or_computed(run, "probing")
    if result is None:
        return
    st.markdown(result.findings["summary"])
    figure = chart(result)
    picture(figure, f"Probe scores by site and target. {result.findings['summary']}")
    st.caption(
        "Each cell is a linear probe fitted on half of the words and scored on the other half: R2 "
        "for counts (standardised ridge), accuracy for categories (logistic regression). What can "
        "be read off need not be used: compare the untrained model, and the shuffled labels."
    )
    st.subheader("Best site per variable, beside its controls")
    rows = [
        {
            "variable": name,
            "site": found["site"],
            "metric": found["metric"],
            "trained": found["score"],
        }
        | found["controls"]
        for name, found in result.findings["best"].items()
    ]
    numbers = pd.DataFrame(rows)
    st.dataframe(
        numbers.style.format(dict.fromkeys(numbers.columns[3:], "{:.3f}")), hide_index=True
    )
    downloads("probing", result, figure)
