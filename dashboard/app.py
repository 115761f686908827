"""The dashboard: `lab dashboard RUNS`, or `streamlit run dashboard/app.py -- RUNS`.

The views lie in a folder of another name than ``pages``, from which Streamlit would make pages of
its own: until the script has run once, links would lead to those, or nowhere.
"""

from __future__ import annotations

import threading

import numpy as np
import streamlit as st

from dashboard.shared import choose_run, explain_errors, runs_folder
from dashboard.views import (
    circuits,
    compare,
    discover,
    discovery,
    emergence,
    explanations,
    heads,
    home,
    interventions,
    leaderboard,
    model,
    patching,
    probing,
    sweeps,
    try_it,
)
from interp.explanations.games import Game
from interp.explanations.lime_and_shap import permutation_shap
from models.runs.run import find_runs

st.set_page_config(page_title="Structure Lab", page_icon="🔬", layout="wide")

PAGES = [
    st.Page(home.show, title="Runs", icon=":material/home:", default=True),
    st.Page(try_it.show, title="Try it", icon=":material/edit:", url_path="try"),
    st.Page(model.show, title="Model", icon=":material/account_tree:", url_path="model"),
    st.Page(probing.show, title="Probing", icon=":material/sensors:", url_path="probing"),
    st.Page(emergence.show, title="Over time", icon=":material/timeline:", url_path="emergence"),
    st.Page(
        interventions.show,
        title="Erase and steer",
        icon=":material/tune:",
        url_path="interventions",
    ),
    st.Page(heads.show, title="Heads", icon=":material/hub:", url_path="heads"),
    st.Page(patching.show, title="Patching", icon=":material/healing:", url_path="patching"),
    st.Page(circuits.show, title="Circuits", icon=":material/schema:", url_path="circuits"),
    st.Page(
        explanations.show, title="Explanations", icon=":material/balance:", url_path="explanations"
    ),
    st.Page(
        leaderboard.show, title="Leaderboard", icon=":material/trophy:", url_path="leaderboard"
    ),
    st.Page(discovery.show, title="Discovery", icon=":material/explore:", url_path="discovery"),
    st.Page(
        discover.show,
        title="From lines to a rule",
        icon=":material/lightbulb:",
        url_path="discover",
    ),
    st.Page(compare.show, title="Compare", icon=":material/leaderboard:", url_path="compare"),
    st.Page(sweeps.show, title="Sweeps", icon=":material/grid_view:", url_path="sweeps"),
]


@st.cache_resource(show_spinner=False)
def warm_up() -> None:
    """shap's first explainer imports all of transformers: once per process, beside the first page,
    so that the first line that is explained does not wait for it."""
    game = Game(lambda ids: ids.sum(axis=1) * 1.0, np.ones(3, int), np.zeros((1, 3), int))
    threading.Thread(target=permutation_shap, args=(game,), daemon=True).start()


warm_up()

# On a narrow screen a wide chart is scrolled, not cut off.
st.html("<style>[data-testid=stVegaLiteChart] {overflow-x: auto; max-width: 100%}</style>")

page = st.navigation(PAGES, expanded=True)  # none behind a click
with explain_errors():
    # Studies, sweeps and a leaderboard may be all there is, and lines are brought.
    alone = ("compare", "discover", "leaderboard", "sweeps")
    if page.url_path not in alone or find_runs(runs_folder()):
        choose_run()
    page.run()
