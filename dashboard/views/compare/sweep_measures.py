"""The further measures of a sweep, on its page: summed up over seeds, and one number drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.measures import along, chart
from analyses.charts.sweeps import short
from analyses.studies.sweeps import over_seeds
from analyses.studies.sweeps.further import FURTHER, MEANING, Name, columns_of
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import picture
from dashboard.markup import text


def further(
    rows: pd.DataFrame, by: Sequence[str], measures: Sequence[Name], lost: pd.DataFrame
) -> None:
    """The further measures of the sweep: a table, and a picture of one number."""
    st.header("Further measures", divider="gray")
    summed = over_seeds.over_seeds(rows, by, measures, lost)
    with st.container(horizontal=True):
        name = controls.segments("Of", list(measures), "further")
        parts = [column for column in columns_of([name]) if rows[column].notna().any()]
        if not parts:
            st.info(f"No run has numbers of {text(name)}.")
            return
        column = controls.selectbox("Number", parts, key="number", width=260)
        places = {"setting": None} | {short(key): key for key in along(rows, by)}
        place = places[controls.selectbox("Along", list(places), key="along", width=200)]
    meaning = MEANING[column]
    st.dataframe(over_seeds.wide(summed, by)[name], hide_index=True)
    st.caption(over_seeds.LEGEND)
    censored = FURTHER[name].censored
    figure = chart(rows, by, column, meaning, place, censored)
    picture(figure, f"{meaning.capitalize()} by setting.")
    st.caption(
        f"{text(meaning.capitalize())}. A point per seed; "
        + (
            "the median over all seeds, where a seed that has no number is slower than all others."
            if censored
            else "the mean over seeds with its 95% interval."
        )
        + " Seeds that have no number are not drawn: the table counts them."
    )
    downloads("sweep-measures", Answer(summed, ""), lambda: figure, of_run=False)
