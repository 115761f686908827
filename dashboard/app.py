"""The dashboard: `lab dashboard RUNS`, or `streamlit run dashboard/app.py -- RUNS`.

The views lie in a folder of another name than ``pages``, from which Streamlit would make pages of
its own: until the script has run once, links would lead to those, or nowhere.
"""

from __future__ import annotations

import streamlit as st

from dashboard.shared import choose_run, explain_errors, runs_folder
from dashboard.views import (
    attribution,
    circuits,
    compare,
    discovery,
    emergence,
    heads,
    home,
    interventions,
    model,
    patching,
    probing,
    try_it,
)
from models.runs import find_runs

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
        attribution.show, title="LIME and SHAP", icon=":material/balance:", url_path="attribution"
    ),
    st.Page(discovery.show, title="Discovery", icon=":material/explore:", url_path="discovery"),
    st.Page(compare.show, title="Compare", icon=":material/leaderboard:", url_path="compare"),
]

# On a narrow screen a wide chart is scrolled, not cut off.
st.html("<style>[data-testid=stVegaLiteChart] {overflow-x: auto; max-width: 100%}</style>")

page = st.navigation(PAGES)
with explain_errors():
    if page.url_path != "compare" or find_runs(runs_folder()):  # studies may be all there is
        choose_run()
    page.run()
