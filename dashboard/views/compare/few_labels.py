"""Few labels: what a language model needs to give verdicts, by number of labelled lines and way."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from analyses.answers import Answers
from analyses.options.studies import FewLabels
from analyses.studies import few_labels as study
from dashboard import controls
from dashboard.drawing import Parts, picture, says, tabs
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
    parts: Parts = {
        target: partial(_by_labels, means[means["target"] == target], rows, measure)
        for target, rows in study.wide(means, measure).items()
    }
    if dimensions := result.arguments["dimensions"]:
        parts["Intrinsic dimension"] = partial(_intrinsic, result.table, dimensions)
    tabs("part_of_few_labels", parts)


def _by_labels(means: pd.DataFrame, rows: pd.DataFrame, measure: str) -> None:
    """One target by the number of labelled lines."""
    target = means["target"].iloc[0]
    picture(
        study.chart(means, measure),
        f"{text(target)}, by number of labelled lines, {study.CALLED[measure]}: a line per "
        f"way; dashed from weights that have read nothing.",
        fills=True,
    )
    st.dataframe(rows, hide_index=True)


def _intrinsic(table: pd.DataFrame, dimensions: Sequence[int]) -> None:
    """The dimensions in which a verdict can be learned."""
    st.markdown(says("few labels: dimension"))
    st.dataframe(study.intrinsic(table, dimensions), hide_index=True)
