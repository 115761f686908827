"""Erase and steer: what the model does when a hidden variable is erased, moved or exchanged."""

from __future__ import annotations

from functools import partial

import pandas as pd
import streamlit as st
from altair.typing import ChartType

from analyses.answers import Answer
from analyses.charts.interventions import charts
from analyses.questions.inside.intervention import changed, changes
from analyses.questions.inside.interventions import main_variable
from analyses.questions.parts.patching import said_chart
from analyses.questions.trials.steering import FURTHEST, steering_refusal
from dashboard import controls
from dashboard.drawing import Parts, picture, reading, says
from dashboard.markup import text
from dashboard.selection import (
    current_run,
    kept_or_computed,
    model_of,
    of_model,
    suggested,
)
from dashboard.views.line import word_of
from dashboard.views.question import told
from interp.model import sites_of
from models.languages import END, Word
from models.runs.run import Run

TITLES = {
    "erasure": "Erased",
    "steering": "Moved",
    "states": "Put into another state",
    "interchange": "Exchanged",
    "scrubbing": "Scrubbed",
}
DO = {"erase": "erase it", "add": "add k to it", "add in proportion": "add k in proportion"}


def show() -> None:
    """The page."""
    run = current_run()
    result = kept_or_computed(run, "interventions")
    if result is None:
        _on_a_word(run, result)
        return
    first, *others = charts(result)
    more: Parts = {TITLES[name]: partial(_experiment, result, name) for name in others}
    more |= {
        "On this line": partial(_on_a_word, run, result),
    }
    told("interventions", result, partial(_experiment, result, first), more)


def _experiment(result: Answer, name: str) -> ChartType:
    """One way to change a variable, and what comes of it."""
    st.markdown(f"**{text(TITLES[name])}**")
    figure = picture(charts(result)[name], f"{TITLES[name]}: {result.sentence}")
    if name == "erasure":
        for line in result.findings["refused"]:  # the changes that this run cannot be asked
            st.info(text(line))
    else:
        reading(f"interventions: {name}")
    return figure


def _on_a_word(run: Run, result: Answer | None) -> None:
    """A typed word with one variable changed at one site."""
    place, names = st.container(), run.language.main_variables
    columns = st.columns(4)
    main = main_variable(run.language)
    key = f"variable_of_{run.language.name}"
    variable = controls.selectbox("Variable", names, names.index(main), key=key, at=columns[0])
    with model_of(run) as model:
        sites = list(sites_of(model))
    findings = result.findings if result else {}
    best = (findings.get("steering") or findings.get("erasure", {}).get(variable) or {}).get("site")
    first = sites.index(best) if best in sites else len(sites) - 1
    key = f"at_{controls.first_run()}"
    site = controls.selectbox("Site", sites, first, key=key, at=columns[1])
    key, ways = f"do_to_{variable}", changes(run, variable)
    change = controls.selectbox("Do", ways, format_func=DO.__getitem__, key=key, at=columns[2])
    k = 0
    if change != "erase":
        k = controls.slider("k", -FURTHEST, FURTHEST, 2, key="k", at=columns[3])
    word = word_of(run)
    runs = _changed(run, site, variable, change, k, word)
    with place:  # on a narrow screen the choices take half of it
        st.markdown(_ends(runs, word))
        words = f"What may follow each prefix, as it is and with {variable} changed."
        picture(said_chart(runs), words)
    st.caption(says("interventions: on a word"))


def longer(run: Run) -> Word:
    """A member. In a language that counts, more of its last symbol follow, so that the place where
    the word may end can move."""
    word = suggested(run, 8)
    return word if steering_refusal(run) else (*word, *word[-1:] * FURTHEST)


_changed = of_model(changed)


def _ends(table: pd.DataFrame, word: Word) -> str:
    """A sentence: after which symbols the word may end, as it is and with the variable changed."""
    rows = table[(table["token"] == END) & table["allowed"]]
    where = {
        name: ", ".join(rows.loc[rows["run"] == name, "place"]) or "nothing"
        for name in ("as it is", "changed")
    }
    before, after = where["as it is"], where["changed"]
    return says("interventions: ends", symbols=len(word), before=before, after=after)
