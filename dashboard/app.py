"""The dashboard: `lab dashboard RUNS`, or `streamlit run dashboard/app.py -- RUNS`.

The views lie in a folder of another name than ``pages``, from which Streamlit would make pages of
its own: until the script has run once, links would lead to those, or nowhere.
"""

from __future__ import annotations

import threading

import numpy as np
import streamlit as st
from streamlit.navigation.page import StreamlitPage

from dashboard.pages import pages
from dashboard.shared import choose_run, explain_errors, runs_folder
from interp.explanations.games import Game
from interp.explanations.lime_and_shap import permutation_shap
from models.runs.run import find_runs

st.set_page_config(page_title="Structure Lab", page_icon="🔬", layout="wide")


@st.cache_resource(show_spinner=False)
def warm_up() -> None:
    """shap's first explainer imports all of transformers: once per process, beside the first page,
    so that the first line that is explained does not wait for it."""
    game = Game(lambda ids: ids.sum(axis=1) * 1.0, np.ones(3, int), np.zeros((1, 3), int))
    threading.Thread(target=permutation_shap, args=(game,), daemon=True).start()


warm_up()

# On a narrow screen a wide chart is scrolled, not cut off.
st.html("<style>[data-testid=stVegaLiteChart] {overflow-x: auto; max-width: 100%}</style>")

KNOWN = pages()
groups: dict[str, list[StreamlitPage]] = {}
for address, known in KNOWN.items():
    icon = f":material/{known.icon}:"
    first = not groups
    drawn = st.Page(known.show, title=known.title, icon=icon, url_path=address, default=first)
    groups.setdefault(known.group, []).append(drawn)
page = st.navigation(groups, expanded=True)  # none behind a click
with explain_errors():
    # Sweeps and a leaderboard may be all there is, and lines are brought.
    if KNOWN[page.url_path or next(iter(KNOWN))].needs_run or find_runs(runs_folder()):
        choose_run()
    page.run()
