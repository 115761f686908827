"""The further measures of a sweep, on its page: summed up over seeds, one number drawn, and the law
of a loss."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from analyses.answers import Answer
from analyses.charts.measures import along, panels, side_by_side
from analyses.charts.sweeps import short
from analyses.studies import scaling
from analyses.studies.sweeps import over_seeds
from analyses.studies.sweeps.further import FURTHER, MEANING, Name, columns_of, is_share
from dashboard import controls
from dashboard.downloads import downloads
from dashboard.drawing import picture, reading
from dashboard.markup import text


def further(
    rows: pd.DataFrame, by: Sequence[str], measures: Sequence[Name], lost: pd.DataFrame
) -> None:
    """The further measures of the sweep: a table, and a picture of one number."""
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
    drawn = panels(rows, by, column, meaning, place, censored, is_share(column))
    with st.container(horizontal=True, gap="medium"):  # panels that do not fit stand below
        for language, panel in drawn.items():
            with st.container(width="content"):
                picture(panel, f"{meaning.capitalize()} by setting, {language}.")
    st.caption(
        f"{text(meaning.capitalize())}. A point per seed; "
        + (
            "the median over all seeds, where a seed that has no number is slower than all others."
            if censored
            else "the mean over seeds with its 95% interval."
        )
        + " Seeds that have no number are not drawn: the table counts them."
    )
    downloads(
        "sweep-measures",
        Answer(summed, ""),
        partial(side_by_side, drawn),
        of_run=False,
    )


def by_which_law(rows: pd.DataFrame, by: Sequence[str]) -> None:
    """The law by which the loss above the languages' entropy falls."""
    size = controls.segments("By", list(scaling.COLUMNS), "size")
    runs = scaling.of_table(rows, by, size)
    laws = _laws(runs)
    sentences = scaling.in_words(runs, laws, size)
    st.markdown("\n".join(f"- {text(sentence)}" for sentence in sentences))
    figure = scaling.chart(runs, size)
    picture(figure, f"Loss above the entropy by {scaling.CALLED[size]}. {' '.join(sentences)}")
    reading("sweep measures: by which law")
    downloads("sweep-laws", Answer(laws, " ".join(sentences)), lambda: figure, of_run=False)


_laws = st.cache_data(max_entries=16, show_spinner="Fitting laws")(scaling.laws)
