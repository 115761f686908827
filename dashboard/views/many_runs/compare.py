"""Compare: the kept studies, many runs with the same budget in one table."""

from __future__ import annotations

import streamlit as st

from analyses.answers import load
from analyses.studies.comparison import STUDIES, chart, wide
from dashboard.shared import downloads, picture, runs_folder


def show() -> None:
    """The page."""
    st.title("Compare")
    st.markdown("**Which kind of model learns what, and holds how far?**")
    folders = [runs_folder(), runs_folder() / "compare"]
    kept = {
        name: result
        for name in STUDIES
        for folder in folders
        if (result := load(folder, name)) is not None
    }
    if not kept:
        st.info(
            f"No study in {runs_folder()} yet. `lab compare {next(iter(STUDIES))}` trains one; "
            f"there are {', '.join(STUDIES)}."
        )
        return
    study = st.segmented_control(
        "Study",
        list(kept),
        default=next(iter(kept)),
        required=True,
        key="study",
        bind="query-params",
    )
    result = kept[study]
    st.markdown(f"{STUDIES[study].question} {result.sentence}")
    figure = chart(result)
    picture(figure, f"Share right by variant, language and length. {result.sentence}")
    st.caption(
        "Bars: means over seeds of the share that is right (whole strings; of runs that were "
        "taught verdicts alone, verdicts), for sizes up to 1, 2, 4 and 10 training windows. "
        "Ticks: the single seeds."
    )
    st.dataframe(wide(result.table), hide_index=True)
    downloads(study, result, lambda: figure)
