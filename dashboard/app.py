"""The dashboard's script, which draws a page. ``server.py`` serves it.

The folder of the views is not called ``pages``, because Streamlit makes pages of its own from the
files of a folder of that name. Until this script had run once, a link would lead to one of those
pages, or nowhere.
"""

from __future__ import annotations

import gc
import threading

import numpy as np
import streamlit as st
from streamlit.navigation.page import StreamlitPage

from analyses.registry import BUILT_IN
from dashboard.drawing import LINKS
from dashboard.pages import SHOWN, pages
from dashboard.selection import linked_run
from interp.explanations.games import Game
from interp.explanations.lime_and_shap import permutation_shap

st.set_page_config(page_title="Structure Lab", page_icon="🔬", layout="wide")


@st.cache_resource(show_spinner=False)
def _warm_up() -> None:
    """Asks shap once, in the background, while the first page is drawn.

    shap's first explainer imports all of transformers; the first word to be explained should not
    have to wait for that. And Streamlit collects garbage after each click: what was imported stays,
    and half a million objects of it are not looked through each time.
    """
    game = Game(lambda ids: ids.sum(axis=1) * 1.0, np.ones(3, int), np.zeros((1, 3), int))

    def warm_up() -> None:
        permutation_shap(game)
        gc.freeze()

    threading.Thread(target=warm_up, daemon=True).start()


_warm_up()

# A chart is never cut off: where it is wider than its place, it is drawn smaller. On a narrow
# screen the picture comes soon. A marked word is seen on a projector too, and by those who see no
# colours. Small print is dark enough to be read.
st.html(
    """<style>
[data-testid=stMainBlockContainer] {padding-top: 3.5rem}
@media (min-width: 640px) and (max-width: 1200px) {
    [data-testid=stMainBlockContainer] {padding-left: 2rem; padding-right: 2rem}
}
[data-testid=stVegaLiteChart] svg.marks {max-width: 100%; height: auto}
@media (max-width: 640px) {
    .st-key-bar > div {max-width: calc(50% - 0.5rem)}
    .st-key-facts, [class*=st-key-wide] {display: none}
    [class*=st-key-group] li {font-size: 0.78rem; margin-left: 0.8rem}
    h1 {font-size: 1.75rem !important; padding: 0 !important}
    [data-testid=stVerticalBlock] {gap: 0.6rem}
}
.stMarkdownColoredBackground {
    background-color: #ffc24d !important;
    color: #1a1a1a !important;
    text-decoration: underline;
    text-underline-offset: 3px;
}
[data-testid=stMarkdownContainer] :has(.stMarkdownColoredBackground) {line-height: 1.6}
[data-testid=stCaptionContainer], [data-testid=stCaptionContainer] * {
    color: light-dark(#5a5958, #b9b8b6);
    opacity: 1;
}
[data-testid=stBaseButton-primary]:enabled, [data-testid=stBaseButton-primary]:enabled *,
[data-testid=stMultiSelect] span[title] {
    color: light-dark(#ffffff, #10222b);
}
</style>
"""
)

groups: dict[str, list[StreamlitPage]] = {}
links: dict[str, StreamlitPage] = {}
run = linked_run()
for address, page in pages().items():
    # What this run cannot be asked is not in the list; a link to it still says why.
    drawn = st.Page(
        page.draw,
        title=page.title,
        icon=f":material/{page.icon}:",
        url_path=address,
        default=not links,
        visibility="visible" if page.applies(run) else "hidden",
    )
    links[address] = drawn
    groups.setdefault(page.group, []).append(drawn)
places = dict.fromkeys(BUILT_IN, links["questions"])
places |= {name: links[address] for address, names in SHOWN.items() for name in names}
st.session_state[LINKS] = places | links  # a question without a page of its own is found, too
st.navigation(groups, expanded=True).run()  # no page is hidden behind a click
