"""Few labels: what a language model needs to give verdicts, by number of labelled lines and way."""

from __future__ import annotations

import streamlit as st

from analyses.answers import Answers
from analyses.options.studies import FewLabels
from analyses.studies import few_labels as study
from dashboard import controls
from dashboard.drawing import picture, says
from dashboard.markup import text
from dashboard.selection import runs_folder
from dashboard.views.compare.sweeps import find_studies, name_of


def show() -> None:
    """The page."""
    folders = find_studies(runs_folder(), study.NAME)
    if not folders:
        st.info(says("few labels: none", folder=runs_folder(), out=FewLabels.out))
        return
    names = {name_of(path): path for path in folders}
    chosen = st.selectbox("Study", list(names), key="few_labels", bind="query-params")
    result = Answers(names[chosen], study.NAME).latest()
    if result is None:
        st.info("It was made by another version of the lab: run `lab sweep few-labels` again.")
        return
    for sentence in result.findings["sentences"]:
        st.markdown(f"- {text(sentence)}")
    means = study.over_seeds(result.table)
    measure = controls.segments(
        "Show", list(study.CALLED), "labels_measure", format_func=study.CALLED.__getitem__
    )
    st.caption(text(study.LEGEND))
    for target, rows in study.wide(means, measure).items():
        picture(
            study.chart(means[means["target"] == target], measure),
            f"{text(target)}, by number of labelled lines, {study.CALLED[measure]}: a line per "
            f"way; dashed from weights that have read nothing.",
            fills=True,
        )
        st.dataframe(rows, hide_index=True)
    if dimensions := result.arguments["dimensions"]:
        st.subheader("Intrinsic dimension")
        st.markdown(says("few labels: dimension"))
        st.dataframe(study.intrinsic(result.table, dimensions), hide_index=True)
