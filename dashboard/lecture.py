"""Lecture: larger type, no list of pages, and the arrow keys walk through a tour."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.drawing import LECTURE, link_to

LOOKS = """<style>
html {font-size: 20px}
[data-testid=stSidebar], [data-testid=stExpandSidebarButton] {display: none}
[data-testid=stMainBlockContainer] {max-width: 100%; padding-left: 2rem; padding-right: 2rem}
</style>
<script>
window.walks ??= document.addEventListener("keydown", (event) => {
    const step = {ArrowRight: /Next:/, ArrowLeft: /^[^]*Back$/}[event.key];
    const busy = event.target.closest("input, textarea, [role=slider], [role=tab], [role=option]");
    const lecture = document.querySelector(".st-key-end-lecture");
    if (!step || busy || !lecture || event.altKey || event.ctrlKey || event.metaKey) return;
    const links = [...document.querySelectorAll("[data-testid=stPageLink] a")];
    links.find((link) => step.test(link.textContent.trim()))?.click();
}) ?? true;
</script>"""


def choose(bar: DeltaGenerator) -> None:
    """The switch in the bar above the page, which is part of the link; and what it does."""
    if st.query_params.get(LECTURE):
        st.session_state[LECTURE] = True
    if not st.session_state.get(LECTURE):
        bar.button(
            "Lecture",
            icon=":material/co_present:",
            on_click=_switch,
            args=(True,),
            help="Larger type, and no list of pages. The arrow keys go to the next and the last "
            "stop of a tour.",
        )
        return
    st.query_params[LECTURE] = "true"
    st.html(LOOKS, unsafe_allow_javascript=True)
    with bar:
        link_to("tour", "Guided tours")
    bar.button(
        "End the lecture",
        key="end-lecture",
        on_click=_switch,
        args=(False,),
        icon=":material/close:",
    )


def _switch(on: bool) -> None:
    st.session_state[LECTURE] = on
    st.query_params.pop(LECTURE, None)
