"""The guided tours: where they begin, and the stop that a link names."""

from __future__ import annotations

import streamlit as st

from dashboard.drawing import LINKS, link_to
from dashboard.glossary import explained
from dashboard.markup import text
from dashboard.selection import is_dutch, most_telling, runs_folder
from dashboard.tours import TOURS, Stop, Tour
from models.runs.folders import find_runs


def show() -> None:
    """The page of all tours."""
    st.markdown("**Where does one begin?** Each stop is a page, with what to do and what to see.")
    for name, tour in TOURS.items():
        st.header(text(tour.title), divider="gray")
        st.markdown(text(tour.about))
        for number, stop in enumerate(tour.stops, 1):
            _link(name, number, f"{number}. {stop.title}")


def stop(address: str | None) -> None:
    """The stop of the tour that the link is on, above its page; nothing on any other link.

    The first page has no address of its own. A link to a stop there, opened from elsewhere, names
    the page that it was on; so whoever comes to another page than the stop's is led there.

    Args:
        address: the address of the page that is drawn; None if it is drawn by itself.
    """
    name, at = st.query_params.get("tour", ""), st.query_params.get("stop", "")
    tour = TOURS.get(name)
    if tour is None or not at.isdecimal() or not 1 <= int(at) <= len(tour.stops):
        return
    number = int(at)
    here = tour.stops[number - 1]
    links = st.session_state.get(LINKS, {})
    if address not in (None, here.page) and here.page in links:
        st.switch_page(links[here.page], query_params=dict(st.query_params))
    if st.session_state.get(REACHED) != (name, number):
        st.session_state[REACHED] = name, number
        _arrange(tour, here)
    with st.container(border=True):
        st.caption(f"{text(tour.title)}: stop {number:d} of {len(tour.stops):d}")
        st.markdown(f"**{text(here.title)}**")
        st.markdown(f":material/touch_app: {explained(here.do)}")
        st.markdown(f":material/visibility: {explained(here.see)}")
        with st.container(horizontal=True):
            if number > 1:
                _link(name, number - 1, "Back")
            if number < len(tour.stops):
                _link(name, number + 1, f"Next: {tour.stops[number].title}")
            link_to("tour", "All stops")


REACHED = "reached"
"""The stop at which the reader has arrived. Later the choices are the reader's."""


def _arrange(tour: Tour, here: Stop) -> None:
    """Makes the choices of a stop, but for those that the link makes itself."""
    for key, value in here.shown.items():
        if key not in st.query_params:
            st.session_state[key] = value
    run = st.query_params.get("run") or st.session_state.get("run", "")
    names = [path.name for path in find_runs(runs_folder())]
    if tour.dutch and names and not is_dutch(run):
        st.session_state["run"] = most_telling(names)


def _link(name: str, number: int, label: str) -> None:
    link_to(TOURS[name].stops[number - 1].page, label, tour=name, stop=str(number))
